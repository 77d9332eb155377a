// Package wire is a simulated network between the nodes of one process. Each
// direction of each link can be cut or slowed by itself; what travels takes time
// and, on a cut link, is lost without a word, as on a real one. It carries Raft
// (Endpoint is a raft.Transport) and what nodes otherwise ask of each other
// (Endpoint is a node's Peers).
//
// It stands on time.Sleep and channels alone, so that inside a bubble of
// testing/synctest the time it takes is virtual. No lock is held while it waits.
package wire

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

var (
	errTimeout = errors.New("no answer in time")
	errClosed  = errors.New("the endpoint is closed")
)

// timeout is how long a call waits for its answer.
const timeout = time.Second

// link is one direction between two nodes.
type link struct {
	cut   bool
	extra time.Duration // on top of the ordinary latency
	rng   *rand.Rand
}

// Network connects nodes 0..n-1. Safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	links [][]link
	ends  []*Endpoint // nil while a node is down
	// snapshots and chunks were carried to their receiver.
	snapshots, chunks int
	arrival           time.Time // of the last to arrive of all that was sent
}

// Carried is how many of Raft's snapshots were installed over the network, and how
// many pieces of data files were fetched.
func (w *Network) Carried() (snapshots, chunks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snapshots, w.chunks
}

func (w *Network) count(snapshots, chunks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshots += snapshots
	w.chunks += chunks
}

// New returns a network without faults.
func New(n int, seed uint64) *Network {
	w := &Network{links: make([][]link, n), ends: make([]*Endpoint, n)}
	for i := range w.links {
		w.links[i] = make([]link, n)
		for j := range w.links[i] {
			w.links[i][j].rng = rand.New(rand.NewPCG(seed, uint64(i*n+j)))
		}
	}
	return w
}

// Cut loses everything that travels from one node to another from now on, and
// what is on its way.
func (w *Network) Cut(from, to int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[from][to].cut = true
}

// Slow adds to the latency of one direction.
func (w *Network) Slow(from, to int, extra time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[from][to].extra = extra
}

// Heal mends and speeds up every link.
func (w *Network) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.links {
		for j := range w.links[i] {
			w.links[i][j].cut, w.links[i][j].extra = false, 0
		}
	}
}

// latency draws the time that something sent now takes, between 50 microseconds
// and a millisecond on a healthy link.
func (w *Network) latency(from, to int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.links[from][to]
	d := 50*time.Microsecond + time.Duration(l.rng.Int64N(int64(950*time.Microsecond))) + l.extra
	if at := time.Now().Add(d); at.After(w.arrival) {
		w.arrival = at
	}
	return d
}

// Arrival is when all that was sent so far has arrived, be it from a node that is no more.
func (w *Network) Arrival() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.arrival
}

func (w *Network) isCut(from, to int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links[from][to].cut
}

// Address is how Raft speaks of a node.
func Address(node int) raft.ServerAddress { return raft.ServerAddress(fmt.Sprintf("n%d", node+1)) }

func (w *Network) node(a raft.ServerAddress) (int, bool) {
	for i := range w.ends {
		if Address(i) == a {
			return i, true
		}
	}
	return 0, false
}

// peer is the running node at the other end, nil if it is down.
func (w *Network) peer(node int) *Endpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[node]
}

// Attach connects a node that starts. The one before it must be closed.
func (w *Network) Attach(node int) *Endpoint {
	e := &Endpoint{net: w, node: node, consumer: make(chan raft.RPC, 16), closed: make(chan struct{}), lanes: make([]*lane, len(w.links))}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends[node] != nil {
		panic(fmt.Sprintf("node %d is attached twice", node))
	}
	w.ends[node] = e
	return e
}

// Endpoint is one run of one node on the network.
type Endpoint struct {
	net      *Network
	node     int
	consumer chan raft.RPC
	closed   chan struct{}
	once     sync.Once

	mu        sync.Mutex
	heartbeat func(raft.RPC)
	server    Server
	lanes     []*lane // of forwarded batches, by node
}

// Close takes the node off the network: nothing more arrives or leaves. It
// implements raft.WithClose.
func (e *Endpoint) Close() error {
	e.once.Do(func() {
		close(e.closed)
		e.net.mu.Lock()
		defer e.net.mu.Unlock()
		e.net.ends[e.node] = nil
	})
	return nil
}

func (e *Endpoint) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// pass lets something travel to another node, which takes its time, and returns
// the receiver; false if it was lost.
func (e *Endpoint) pass(to int) (*Endpoint, bool) {
	if e.isClosed() || e.net.isCut(e.node, to) {
		return nil, false
	}
	time.Sleep(e.net.latency(e.node, to))
	peer := e.net.peer(to)
	return peer, peer != nil && !e.net.isCut(e.node, to)
}

// call carries a request to another node and its answer back. The request and the
// answer are lost independently; without an answer it returns after the timeout,
// while the request may still be served.
func call[A any](e *Endpoint, to int, wait time.Duration, serve func(peer *Endpoint) (A, error)) (A, error) {
	type answer struct {
		value A
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		peer, ok := e.pass(to)
		if !ok {
			return
		}
		a, err := serve(peer)
		if back, ok := peer.pass(e.node); ok && back == e {
			answers <- answer{a, err}
		}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		return *new(A), fmt.Errorf("%s to %s: %w", Address(e.node), Address(to), errTimeout)
	case <-e.closed:
		return *new(A), errClosed
	}
}
