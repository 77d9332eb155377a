package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

const (
	// entryBytes is where an entry of several batches is cut. A larger batch goes
	// alone. An entry must travel within Raft's RPC deadline, and everything behind
	// it waits for it: both ask for small entries; the cost of an fsync asks for
	// large ones, and is paid off at this size.
	entryBytes = 512 << 10
	// inFlight bounds the entries between Raft's Apply and their result. While all
	// are out, waiting batches gather for the next entry: the batching needs no
	// timer and adds no delay at low load.
	inFlight = 4
)

// proposal is one thing to be put in the log: a batch of messages, or a command
// of the leader, or, with neither, a barrier.
type proposal struct {
	batch   []byte
	command []byte
	// done is called once, by the collector. The result is zero with an error.
	// outcomes is nil but for a batch.
	done func(outcomes []raftfsm.Outcome, result raftfsm.Result, err error)
}

// committer turns proposals into Raft entries and gives their results back. Two
// goroutines run it: cut and collect. Results come in the order of put.
type committer struct {
	raft *raft.Raft

	mu     sync.Mutex
	queue  []proposal
	closed bool
	wake   chan struct{} // capacity 1: queue or closed changed

	slots  chan struct{}
	flying chan *flight
	// dead is closed when Raft has ended: it forgets to answer what it has not
	// handed to the state machine by then.
	dead chan struct{}

	// out are the flights whose results are due, so that abandon finds them.
	outMu sync.Mutex
	out   map[*flight]struct{}

	// transfer is since when Raft refuses everything because leadership is handed over,
	// refused when it did so last; stuck is told of one that does not end. collect's.
	transfer, refused time.Time
	stuck             func(error)
}

// transferWait is far more than a transfer of leadership, with all its tries, may take.
// hashicorp/raft (v1.8.0) may lose one, and then leads for ever without taking an entry.
// Refusals farther apart than transferGap are of two transfers: who is refused tries again.
const (
	transferWait = 10 * time.Second
	transferGap  = 2 * time.Second
)

var errStuck = errors.New("a transfer of leadership does not end: the node has to be started again")

// watch looks at what became of an entry.
func (c *committer) watch(err error) {
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		c.refused = time.Time{}
		return
	}
	now := time.Now()
	if now.Sub(c.refused) > transferGap {
		c.transfer = now
	}
	if c.refused = now; now.Sub(c.transfer) > transferWait {
		c.stuck(errStuck)
	}
}

// flight is one entry on its way, or proposals that were refused (future is nil,
// err says why), which wait here for their turn to be answered.
type flight struct {
	future    raft.Future
	err       error
	proposals []proposal
	once      sync.Once
}

func newCommitter(stuck func(error)) *committer {
	return &committer{
		stuck:  stuck,
		wake:   make(chan struct{}, 1),
		slots:  make(chan struct{}, inFlight),
		flying: make(chan *flight, inFlight),
		dead:   make(chan struct{}),
		out:    make(map[*flight]struct{}),
	}
}

// put queues a proposal; false if the committer is closed, and done is not called.
func (c *committer) put(p proposal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, p)
	c.signal()
	return true
}

// close ends the intake. What waits is refused; what flies is awaited by collect.
func (c *committer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.signal()
}

func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take blocks until proposals wait and returns those of the next entry: one
// command or barrier, or batches up to entryBytes, at least one. After close it
// returns all that is left, and closed.
func (c *committer) take() (ps []proposal, closed bool) {
	for {
		c.mu.Lock()
		n := len(c.queue)
		if !c.closed {
			n = entryLen(c.queue)
		}
		if n > 0 || c.closed {
			ps, closed = c.queue[:n:n], c.closed
			if c.queue = c.queue[n:]; len(c.queue) == 0 {
				c.queue = nil // a passed array must not pin its batches
			}
			c.mu.Unlock()
			return ps, closed
		}
		c.mu.Unlock()
		<-c.wake
	}
}

// entryLen is how many of the proposals at the front make up one entry.
func entryLen(queue []proposal) int {
	bytes := 0
	for i, p := range queue {
		bytes += len(p.batch)
		if p.batch == nil || bytes > entryBytes {
			return max(i, 1)
		}
	}
	return len(queue)
}

// cut makes entries until close.
func (c *committer) cut() error {
	defer close(c.flying)
	for {
		c.slots <- struct{}{}
		ps, closed := c.take()
		f := &flight{proposals: ps}
		if closed {
			f.err = errShuttingDown
		} else {
			f.future = c.launch(ps)
		}
		c.outMu.Lock()
		c.out[f] = struct{}{}
		c.outMu.Unlock()
		c.flying <- f
		if closed {
			return nil
		}
	}
}

func (c *committer) launch(ps []proposal) raft.Future {
	switch p := ps[0]; {
	case p.batch != nil:
		batches := make([][]byte, len(ps))
		for i, p := range ps {
			batches[i] = p.batch
		}
		return c.raft.Apply(raftfsm.EncodePublish(time.Now().UnixNano(), batches), 0)
	case p.command != nil:
		return c.raft.Apply(p.command, 0)
	default:
		return c.raft.Barrier(0)
	}
}

// collect answers entries in order until cut has ended and all are answered.
func (c *committer) collect() error {
	for f := range c.flying {
		result, err := c.await(f)
		c.watch(err)
		<-c.slots
		c.land(f, result, err)
	}
	return nil
}

// abandon answers what flies without its result: for a node that ends while Raft
// hangs.
func (c *committer) abandon() {
	c.outMu.Lock()
	var left []*flight
	for f := range c.out {
		left = append(left, f)
	}
	c.outMu.Unlock()
	for _, f := range left {
		c.land(f, raftfsm.Result{}, fmt.Errorf("%w: this node ends while Raft does not answer", ErrUnknown))
	}
}

func (c *committer) land(f *flight, result raftfsm.Result, err error) {
	c.outMu.Lock()
	delete(c.out, f)
	c.outMu.Unlock()
	f.once.Do(func() {
		for i, p := range f.proposals {
			switch {
			case err != nil:
				p.done(nil, raftfsm.Result{}, err)
			case p.batch == nil:
				p.done(nil, result, nil)
			case len(result.Outcomes) != len(f.proposals):
				panic(fmt.Sprintf("an entry of %d batches has the outcomes of %d: %v", len(f.proposals), len(result.Outcomes), result.Err))
			default:
				p.done(result.Outcomes[i], result, nil)
			}
		}
	})
}

// await is the result of the entry, or an error that wraps ErrUnavailable or
// ErrUnknown.
func (c *committer) await(f *flight) (raftfsm.Result, error) {
	if f.future == nil {
		return raftfsm.Result{}, f.err
	}
	answered := make(chan error, 1)
	go func() { answered <- f.future.Error() }()
	select {
	case err := <-answered:
		return f.result(err)
	case <-c.dead:
	}
	select {
	case err := <-answered:
		return f.result(err)
	default:
		return raftfsm.Result{}, fmt.Errorf("%w: %w", ErrUnknown, raft.ErrRaftShutdown)
	}
}

func (f *flight) result(err error) (raftfsm.Result, error) {
	if err != nil {
		return raftfsm.Result{}, classify(err)
	}
	applied, ok := f.future.(raft.ApplyFuture)
	if !ok {
		return raftfsm.Result{}, nil
	}
	result, ok := applied.Response().(raftfsm.Result)
	if !ok {
		return raftfsm.Result{}, nil // a barrier has no response
	}
	if errors.Is(result.Err, raftfsm.ErrHalted) {
		return raftfsm.Result{}, fmt.Errorf("%w: %w", ErrUnknown, result.Err)
	}
	return result, nil
}

// classify says of an error of Raft whether the entry may still be committed. Only
// what Raft refused before it touched the log is sure not to be.
func classify(err error) error {
	for _, refused := range []error{raft.ErrNotLeader, raft.ErrLeadershipTransferInProgress, raft.ErrEnqueueTimeout} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}
