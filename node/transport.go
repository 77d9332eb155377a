package node

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"chorale/raftfsm"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// raftTimeout bounds one RPC. It covers the restore of a snapshot that was just
	// sent: were it shorter than that, the snapshot would be sent for ever.
	raftTimeout = 30 * time.Second
	raftPool    = 3
	// raftDial is short: a node that is back must be noticed soon.
	raftDial = 2 * time.Second
)

// raftLayer carries Raft's connections over TCP. Each starts with the dialler's
// cluster id, so that a node whose address has gone over to another cluster is not
// obeyed by it.
type raftLayer struct {
	net.Listener
	advertise string
	cluster   func() raftfsm.ClusterID
	log       hclog.Logger

	// open are the connections of both directions. Raft's transport forgets them
	// when it closes.
	mu     sync.Mutex
	open   map[*raftConn]struct{}
	closed bool
}

// raftConn is a connection that its layer closes if nobody else does.
type raftConn struct {
	net.Conn
	layer *raftLayer
}

// hold wraps a new connection, or closes it if the layer is closed.
func (l *raftLayer) hold(conn net.Conn) (*raftConn, error) {
	c := &raftConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	if l.open == nil {
		l.open = make(map[*raftConn]struct{})
	}
	l.open[c] = struct{}{}
	return c, nil
}

// Close implements net.Conn.
func (c *raftConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.open, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}

// Close implements net.Listener and ends all connections.
func (l *raftLayer) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.open {
		c.Conn.Close()
	}
	l.open = nil
	return err
}

func newRaftTransport(l *raftLayer, addresses raft.ServerAddressProvider) *raft.NetworkTransport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		ServerAddressProvider: addresses,
		Logger:                l.log.Named("transport"),
		Stream:                l,
		MaxPool:               raftPool,
		Timeout:               raftTimeout,
	})
}

// Addr implements net.Listener: what others are told, which may be a name.
func (l *raftLayer) Addr() net.Addr { return namedAddr(l.advertise) }

type namedAddr string

func (namedAddr) Network() string  { return "tcp" }
func (a namedAddr) String() string { return string(a) }

// The greeting: 4 bytes magic, 16 bytes cluster id, all zero if not known yet.
const greetingMagic = "CHR1"

const greetingBytes = len(greetingMagic) + len(raftfsm.ClusterID{})

// Dial implements raft.StreamLayer.
func (l *raftLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", string(address), min(timeout, raftDial))
	if err != nil {
		return nil, err
	}
	id := l.cluster()
	if _, err := conn.Write(append([]byte(greetingMagic), id[:]...)); err != nil {
		conn.Close()
		return nil, err
	}
	return l.hold(conn)
}

// Accept implements net.Listener. The greeting is read with the first bytes, so
// that a silent connection does not hold up the others.
func (l *raftLayer) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	held, err := l.hold(conn)
	if err != nil {
		return nil, err
	}
	return &greetedConn{raftConn: held}, nil
}

type greetedConn struct {
	*raftConn
	once sync.Once
	err  error
}

// Read implements net.Conn.
func (c *greetedConn) Read(b []byte) (int, error) {
	c.once.Do(func() {
		if c.err = c.greet(); c.err != nil {
			c.layer.log.Warn("a raft connection was refused", "from", c.RemoteAddr(), "error", c.err)
		}
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(b)
}

func (c *greetedConn) greet() error {
	var b [greetingBytes]byte
	if _, err := io.ReadFull(c.Conn, b[:]); err != nil {
		return fmt.Errorf("reading the greeting: %w", err)
	}
	if string(b[:len(greetingMagic)]) != greetingMagic {
		return fmt.Errorf("it starts with %q: no node of ours", b[:len(greetingMagic)])
	}
	theirs, ours := raftfsm.ClusterID(b[len(greetingMagic):]), c.layer.cluster()
	if none := (raftfsm.ClusterID{}); theirs != ours && theirs != none && ours != none {
		return fmt.Errorf("it is of cluster %x, this node of %x", theirs, ours)
	}
	return nil
}
