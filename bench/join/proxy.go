package join

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// proxy stands before one port of a node and counts what passes.
type proxy struct {
	listener net.Listener
	to       string
	in, out  atomic.Int64 // bytes to the node, and from it
}

// listen puts a proxy before an address of loopback: at another one, with the same port.
func listen(to string) (*proxy, error) {
	_, port, err := net.SplitHostPort(to)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(seen, port))
	return &proxy{listener: l, to: to}, err
}

// run serves until ctx ends. A node that is down is one that does not answer.
func (p *proxy) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { p.listener.Close() })()
	var g errgroup.Group
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return errors.Join(g.Wait(), ctx.Err())
		}
		g.Go(func() error { return p.pass(ctx, c) })
	}
}

// pass connects both sides until one of them has had enough.
func (p *proxy) pass(ctx context.Context, c net.Conn) error {
	defer c.Close()
	var d net.Dialer
	n, err := d.DialContext(ctx, "tcp", p.to)
	if err != nil {
		return nil
	}
	defer n.Close()
	defer context.AfterFunc(ctx, func() {
		c.Close()
		n.Close()
	})()
	var g errgroup.Group
	for _, way := range []struct {
		to, from net.Conn
		count    *atomic.Int64
	}{{n, c, &p.in}, {c, n, &p.out}} {
		g.Go(func() error {
			defer way.to.Close()
			// However it ends, the other side is told by the close.
			_, _ = io.Copy(counted{way.to, way.count}, way.from)
			return nil
		})
	}
	return g.Wait()
}

type counted struct {
	io.Writer
	count *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.count.Add(int64(n))
	return n, err
}
