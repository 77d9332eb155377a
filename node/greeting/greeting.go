// Package greeting carries Raft's connections, each of which starts with the cluster that
// it is of: a node whose address has gone over to another cluster is not obeyed by it.
package greeting

import (
	"errors"
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

// Layer carries Raft's connections over TCP. Each starts with the dialler's cluster id. It
// implements raft.StreamLayer; safe for concurrent use.
type Layer struct {
	net.Listener
	// Advertise is the address that others are told, host:port.
	Advertise string
	// Cluster is this node's, zero as long as it is not known.
	Cluster func() raftfsm.ClusterID
	Log     hclog.Logger

	mu sync.Mutex
	// open are the connections of both directions. Raft's transport forgets them
	// when it closes.
	open     map[*raftConn]struct{}
	closed   bool
	refusals map[stranger]*knocks
}

// raftConn is a connection that its layer closes if nobody else does.
type raftConn struct {
	net.Conn
	layer *Layer
}

// hold wraps a new connection, or closes it if the layer is closed.
func (l *Layer) hold(conn net.Conn) (*raftConn, error) {
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
func (l *Layer) Close() error {
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

// NewTransport is Raft over a layer, which it closes.
func NewTransport(l *Layer, addresses raft.ServerAddressProvider) *raft.NetworkTransport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		ServerAddressProvider: addresses,
		Logger:                l.Log.Named("transport"),
		Stream:                l,
		MaxPool:               raftPool,
		Timeout:               raftTimeout,
	})
}

// Addr implements net.Listener: what others are told, which may be a name.
func (l *Layer) Addr() net.Addr { return NamedAddr(l.Advertise) }

// NamedAddr is an address by name, host:port.
type NamedAddr string

// Network implements net.Addr.
func (NamedAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a NamedAddr) String() string { return string(a) }

// The greeting: 4 bytes magic, 16 bytes cluster id, all zero if not known yet.
const greetingMagic = "CHR1"

const greetingBytes = len(greetingMagic) + len(raftfsm.ClusterID{})

// Dial implements raft.StreamLayer.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", string(address), min(timeout, raftDial))
	if err != nil {
		return nil, err
	}
	id := l.Cluster()
	if _, err := conn.Write(append([]byte(greetingMagic), id[:]...)); err != nil {
		conn.Close()
		return nil, err
	}
	return l.hold(conn)
}

// Accept implements net.Listener. The greeting is read with the first bytes, so
// that a silent connection does not hold up the others.
func (l *Layer) Accept() (net.Conn, error) {
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

// Read implements net.Conn. A connection that is refused, or closed at this end, just
// ends for Raft, which would log as an error what is none or was logged here.
func (c *greetedConn) Read(b []byte) (int, error) {
	c.once.Do(func() {
		if c.err = c.greet(); c.err != nil && !errors.Is(c.err, net.ErrClosed) {
			c.layer.refused(c.RemoteAddr(), c.err)
		}
	})
	if c.err != nil {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

const (
	// refusalEvery is how often the same refusal of the same host is logged: a
	// stranger tries several times a second, for ever.
	refusalEvery = time.Minute
	// maxRefusals bounds what is remembered of them.
	maxRefusals = 256
)

// Why a connection is refused.
var (
	errNoGreeting   = errors.New("no greeting came")
	errNoNode       = errors.New("no node of ours")
	errOtherCluster = errors.New("of another cluster")
)

// stranger is a host that was refused, and which of the reasons it was.
type stranger struct {
	host   string
	reason error
}

// knocks are a stranger's since one was logged.
type knocks struct {
	logged time.Time
	others int
}

// refused logs a refusal, unless the like was logged a moment ago.
func (l *Layer) refused(from net.Addr, err error) {
	host, _, _ := net.SplitHostPort(from.String())
	key, now := stranger{host: host}, time.Now()
	for _, reason := range []error{errNoGreeting, errNoNode, errOtherCluster} {
		if errors.Is(err, reason) {
			key.reason = reason
		}
	}
	l.mu.Lock()
	known := l.refusals[key]
	if known != nil && now.Sub(known.logged) < refusalEvery {
		known.others++
		l.mu.Unlock()
		return
	}
	if l.refusals == nil || len(l.refusals) >= maxRefusals {
		l.refusals = make(map[stranger]*knocks)
	}
	l.refusals[key] = &knocks{logged: now}
	l.mu.Unlock()
	args := []any{"from", from, "error", err}
	if known != nil {
		args = append(args, "not-logged", known.others)
	}
	l.Log.Warn("a raft connection was refused", args...)
}

func (c *greetedConn) greet() error {
	var b [greetingBytes]byte
	if _, err := io.ReadFull(c.Conn, b[:]); err != nil {
		return fmt.Errorf("%w: %w", errNoGreeting, err)
	}
	if string(b[:len(greetingMagic)]) != greetingMagic {
		return fmt.Errorf("%w: it starts with %q", errNoNode, b[:len(greetingMagic)])
	}
	theirs, ours := raftfsm.ClusterID(b[len(greetingMagic):]), c.layer.Cluster()
	if none := (raftfsm.ClusterID{}); theirs != ours && theirs != none && ours != none {
		return fmt.Errorf("%w: it is of %x, this node of %x", errOtherCluster, theirs, ours)
	}
	return nil
}
