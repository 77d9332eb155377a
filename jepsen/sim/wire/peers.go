package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"chorale/disk"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/raft"
)

// submitTimeout is how long a forwarded batch waits for its outcomes.
const submitTimeout = 3 * time.Second

// chunk is how much of a file one answer carries.
const chunk = 4 << 10

// Server is what a node does for others.
type Server interface {
	// SubmitLocal takes a batch if this node leads; see the engine.
	SubmitLocal(ctx context.Context, batch []byte, done func([]raftfsm.Outcome, error))
	// OpenFile opens a data file that this node holds.
	OpenFile(h segments.Hash) (disk.File, segments.FileMeta, error)
	// Salvage opens what this node has of a data file.
	Salvage(h segments.Hash) (disk.File, segments.FileMeta, error)
	// Health is how far this node is.
	Health() roster.Health
}

// Serve says who answers what arrives here.
func (e *Endpoint) Serve(s Server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = s
}

func (e *Endpoint) serving() Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

// parcel is a forwarded batch on its way.
type parcel struct {
	batch []byte
	done  func([]raftfsm.Outcome, error)
	once  sync.Once
}

func (p *parcel) answer(o []raftfsm.Outcome, err error) { p.once.Do(func() { p.done(o, err) }) }

// lane carries batches to one node in their order.
type lane struct {
	from  *Endpoint
	to    int
	queue chan *parcel
}

// Submit implements the engine's Peers.
func (e *Endpoint) Submit(_ context.Context, leader raft.ServerID, batch []byte, done func([]raftfsm.Outcome, error)) {
	node, ok := e.net.node(raft.ServerAddress(leader))
	if !ok {
		done(nil, fmt.Errorf("%w: no node has the id %q", engine.ErrUnavailable, leader))
		return
	}
	p := &parcel{batch: append([]byte(nil), batch...), done: done}
	select {
	case e.lane(node).queue <- p:
	case <-e.closed:
		p.answer(nil, fmt.Errorf("%w: %w", engine.ErrUnavailable, errClosed))
		return
	}
	go p.expire(e)
}

// expire answers for a peer that does not.
func (p *parcel) expire(e *Endpoint) {
	timer := time.NewTimer(submitTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.answer(nil, fmt.Errorf("%w: %w", engine.ErrUnknown, errTimeout))
	case <-e.closed:
		p.answer(nil, fmt.Errorf("%w: %w", engine.ErrUnknown, errClosed))
	}
}

func (e *Endpoint) lane(to int) *lane {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lanes[to] == nil {
		e.lanes[to] = &lane{from: e, to: to, queue: make(chan *parcel, 64)}
		go e.lanes[to].run()
	}
	return e.lanes[to]
}

func (l *lane) run() {
	for {
		select {
		case p := <-l.queue:
			l.carry(p)
		case <-l.from.closed:
			return
		}
	}
}

// carry delivers one batch; the outcomes travel back by themselves.
func (l *lane) carry(p *parcel) {
	peer, ok := l.from.pass(l.to)
	if !ok || peer.serving() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), submitTimeout)
	peer.serving().SubmitLocal(ctx, p.batch, func(o []raftfsm.Outcome, err error) {
		cancel()
		go func() {
			if back, ok := peer.pass(l.from.node); ok && back == l.from {
				p.answer(o, err)
			}
		}()
	})
}

// Health implements the engine's Peers.
func (e *Endpoint) Health(_ context.Context, id raft.ServerID) (roster.Health, error) {
	node, ok := e.net.node(raft.ServerAddress(id))
	if !ok {
		return roster.Health{}, fmt.Errorf("%w: no node has the id %q", engine.ErrUnavailable, id)
	}
	return call(e, node, timeout, func(p *Endpoint) (roster.Health, error) {
		s := p.serving()
		if s == nil {
			return roster.Health{}, errClosed
		}
		return s.Health(), nil
	})
}

// Others implements the engine's Peers: all other nodes.
func (e *Endpoint) Others() (out []raft.ServerID) {
	for i := 1; i < len(e.net.links); i++ {
		out = append(out, raft.ServerID(Address((e.node+i)%len(e.net.links))))
	}
	return out
}

// Fetch implements the engine's Peers.
func (e *Endpoint) Fetch(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error {
	n, err := e.fetch(ctx, from, Server.OpenFile, h, offset, length, w)
	if err == nil && n < length {
		err = fmt.Errorf("%w: %w", segments.ErrCorrupt, io.ErrUnexpectedEOF)
	}
	return err
}

// Salvage implements the engine's Peers.
func (e *Endpoint) Salvage(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error {
	_, err := e.fetch(ctx, from, Server.Salvage, h, offset, length, w)
	return err
}

// opener is how a node opens a file.
type opener func(Server, segments.Hash) (disk.File, segments.FileMeta, error)

func (e *Endpoint) fetch(ctx context.Context, from raft.ServerID, open opener, h segments.Hash, offset, length int64, w io.Writer) (n int64, err error) {
	peer, ok := e.net.node(raft.ServerAddress(from))
	if !ok {
		return 0, fmt.Errorf("%w: no node has the id %q", engine.ErrUnavailable, from)
	}
	for n < length {
		b, err := call(e, peer, timeout, func(p *Endpoint) ([]byte, error) { return p.readChunk(open, h, offset+n, length-n) })
		if err := errors.Join(err, ctx.Err()); err != nil {
			return n, err
		}
		if len(b) == 0 {
			return n, nil
		}
		e.net.count(0, 1)
		m, err := w.Write(b)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (e *Endpoint) readChunk(open opener, h segments.Hash, offset, length int64) ([]byte, error) {
	s := e.serving()
	if s == nil {
		return nil, errClosed
	}
	f, meta, err := open(s, h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, max(0, min(chunk, length, meta.Bytes-offset)))
	n, err := f.ReadAt(b, offset)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}
