package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// depth is how many requests may be on their way in a pipeline.
const depth = 2

// pipeline is one connection for AppendEntries: requests arrive in their order,
// are served one by one, and the first loss breaks it.
type pipeline struct {
	from  *Endpoint
	to    int
	queue chan *flight
	// done has room for all that can be under way when its reader leaves after an
	// error: the queue, the one being carried and the one waiting to be queued.
	done chan raft.AppendFuture
	stop chan struct{}
	once sync.Once
}

// flight is one request of a pipeline; it implements raft.AppendFuture.
type flight struct {
	args   *raft.AppendEntriesRequest
	copied *raft.AppendEntriesRequest
	resp   *raft.AppendEntriesResponse
	start  time.Time
	err    error
	ready  chan struct{}
}

// Error implements raft.AppendFuture: it waits.
func (f *flight) Error() error {
	<-f.ready
	return f.err
}

// Start implements raft.AppendFuture.
func (f *flight) Start() time.Time { return f.start }

// Request implements raft.AppendFuture.
func (f *flight) Request() *raft.AppendEntriesRequest { return f.args }

// Response implements raft.AppendFuture.
func (f *flight) Response() *raft.AppendEntriesResponse { return f.resp }

// AppendEntriesPipeline implements raft.Transport.
func (e *Endpoint) AppendEntriesPipeline(_ raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	node, ok := e.net.node(to)
	if !ok {
		return nil, fmt.Errorf("no node has the address %q", to)
	}
	p := &pipeline{
		from: e, to: node, queue: make(chan *flight, depth),
		done: make(chan raft.AppendFuture, depth+2), stop: make(chan struct{}),
	}
	go p.run()
	return p, nil
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &flight{
		args: args, copied: copyAppend(args), resp: resp,
		start: time.Now(), ready: make(chan struct{}),
	}
	select {
	case <-p.stop:
		return nil, raft.ErrPipelineShutdown
	case <-p.from.closed:
		return nil, errClosed
	default:
	}
	select {
	case p.queue <- f:
		return f, nil
	case <-p.stop:
		return nil, raft.ErrPipelineShutdown
	case <-p.from.closed:
		return nil, errClosed
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.stop) })
	return nil
}

func (p *pipeline) run() {
	defer p.farewell()
	broken := false
	for {
		var f *flight
		select {
		case f = <-p.queue:
		case <-p.stop:
			return
		case <-p.from.closed:
			return
		}
		if !broken {
			f.err = p.carry(f)
			broken = f.err != nil
		} else {
			f.err = errClosed
		}
		close(f.ready)
		select {
		case p.done <- f:
		case <-p.stop:
			return
		case <-p.from.closed:
			return
		}
	}
}

// farewell tells whoever still reads answers that there are no more: where the log
// of a node fails, the goroutine that sends is ended from below and does not tell
// the one that reads.
func (p *pipeline) farewell() {
	ready := make(chan struct{})
	close(ready)
	last := &flight{args: &raft.AppendEntriesRequest{}, resp: &raft.AppendEntriesResponse{}, err: errClosed, ready: ready}
	select {
	case p.done <- last:
	case <-time.After(timeout):
	}
}

func (p *pipeline) carry(f *flight) error {
	got, err := call(p.from, p.to, timeout, func(peer *Endpoint) (raft.AppendEntriesResponse, error) {
		r, err := peer.serve(f.copied, nil)
		if a, ok := r.(*raft.AppendEntriesResponse); ok && a != nil {
			return *a, err
		}
		return raft.AppendEntriesResponse{}, err
	})
	if err == nil {
		*f.resp = got
	}
	return err
}
