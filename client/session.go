package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chorale/api"
	"chorale/client/batch"
	"chorale/client/nodes"

	"google.golang.org/grpc"
)

// publishStream is what a session needs of the gRPC stream.
type publishStream = grpc.BidiStreamingClient[api.PublishRequest, api.PublishResponse]

var errStalled = errors.New("no answer in time")

// run is the publisher's goroutine: one session with a node after the other, as
// long as there is something to send.
func (p *Publisher) run() {
	defer close(p.ended)
	for p.pending() {
		n, err := p.client.nodes.Next(p.ctx)
		if err != nil {
			break
		}
		p.waits.Trying(n.Address)
		err = p.session(n)
		if p.ctx.Err() == nil {
			p.learn(n, err)
		}
	}
	p.abandon()
}

// pending waits for a first unit; false means that the publisher is over.
func (p *Publisher) pending() bool {
	for {
		p.mu.Lock()
		any := len(p.queue)+len(p.open.Units) > 0
		p.mu.Unlock()
		if p.ctx.Err() != nil || any {
			return p.ctx.Err() == nil
		}
		p.waits.Idle()
		select {
		case <-p.wake:
		case <-p.ctx.Done():
		}
	}
}

// session sends batches to a node, several ahead of the answers, until one of the
// two directions fails. It then takes everything undecided back into the queue,
// from where the next session sends it again, in order and under the same numbers.
func (p *Publisher) session(n *nodes.Node) error {
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	p.mu.Lock()
	p.stall = time.AfterFunc(time.Hour, func() { cancel(errStalled) })
	p.stall.Stop()
	p.mu.Unlock()

	s, err := n.Stream.Publish(ctx)
	if err == nil {
		received := make(chan error, 1)
		p.client.running.Go(func() {
			err := p.receive(n, s)
			received <- err
			cancel(err)
		})
		if p.send(ctx, s) != nil {
			// The receiver knows better why; it ends by itself or with the context.
			cancel(nil)
		}
		err = <-received
	}
	if errors.Is(context.Cause(ctx), errStalled) {
		err = errStalled
	}
	p.rewind(err)
	return err
}

// send feeds the stream from the queue until the context ends or the stream does.
func (p *Publisher) send(ctx context.Context, s publishStream) error {
	for id := uint64(1); ; {
		b := p.take()
		if b == nil {
			select {
			case <-p.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		b.Encode(p.producer)
		b.Frame.ID = id
		id++
		if err := s.SendMsg(&b.Frame); err != nil {
			return err
		}
	}
}

// take is the next batch to be sent, or nil. The open batch is closed here, and
// not earlier unless it is full: so it holds what came while the batches before it
// were on their way, and a lone message does not wait for company.
func (p *Publisher) take() *batch.Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == batchesInFlight {
		return nil
	}
	if p.sent == len(p.queue) {
		if len(p.open.Units) == 0 {
			return nil
		}
		p.closeOpen()
	}
	p.sent++
	if p.sent == 1 {
		p.stall.Reset(p.client.stall)
		p.waits.Owes()
	}
	return p.queue[p.sent-1]
}

// closeOpen moves the open batch to the queue. The lock is held.
func (p *Publisher) closeOpen() {
	next := &batch.Batch{}
	if n := len(p.spare); n > 0 {
		next, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	next.First = p.open.Next()
	p.queue = append(p.queue, p.open)
	p.open = next
}

// receive takes answers until one of them, or the stream, ends the session.
func (p *Publisher) receive(n *nodes.Node, s publishStream) error {
	for expected := uint64(1); ; expected++ {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		p.mu.Lock()
		if p.sent == 0 || r.Id != expected {
			p.mu.Unlock()
			return fmt.Errorf("%w: answer to batch %d, expected %d", batch.ErrUnanswerable, r.Id, expected)
		}
		b := p.queue[0]
		p.mu.Unlock()
		if err := b.Decided(r); err != nil {
			return err
		}
		p.waits.Serves()
		p.retire(b, func() { b.Resolve(r) })
		if expected == 1 {
			p.client.nodes.Worked(n)
		}
	}
}

// retire takes the oldest batch out of the queue and resolves its units.
func (p *Publisher) retire(b *batch.Batch, resolve func()) {
	p.mu.Lock()
	if p.queue[0] != b {
		panic("client: a batch was decided that is not the oldest")
	}
	p.queue[0] = nil
	p.queue = p.queue[1:]
	if p.sent > 0 {
		p.sent--
	}
	p.rearm()
	p.mu.Unlock()

	p.room.Give(b.Units...)
	resolve()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(len(b.Units))
	if len(p.spare) < batchesInFlight {
		b.Reset()
		p.spare = append(p.spare, b)
	}
	p.notify()
}

// rearm sets the timers to what is due now. The lock is held.
func (p *Publisher) rearm() {
	p.stall.Stop()
	p.waits.Quits()
	if p.sent > 0 {
		p.stall.Reset(p.client.stall)
		p.waits.Owes()
	}
	p.giveUp.Stop()
	if oldest := p.oldest(); oldest != nil {
		p.giveUp.Reset(time.Until(oldest.Since.Add(p.options.GiveUpAfter)))
	}
}

// oldest is the batch with the oldest unit, nil without any. The lock is held.
func (p *Publisher) oldest() *batch.Batch {
	if len(p.queue) > 0 {
		return p.queue[0]
	}
	if len(p.open.Units) > 0 {
		return p.open
	}
	return nil
}

// settle counts resolved units and lets go who waited for them. The lock is held.
func (p *Publisher) settle(units int) {
	p.resolved += uint64(units)
	for len(p.waiting) > 0 && p.waiting[0].units <= p.resolved {
		close(p.waiting[0].done)
		p.waiting = p.waiting[1:]
	}
}

func (p *Publisher) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// rewind takes back what was sent and not decided. All of it may be stored, except
// the oldest batch if its answer says that nothing of it was.
func (p *Publisher) rewind(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall.Stop()
	from := 0
	if batch.StoresNothing(err) {
		from = 1
	}
	for i := from; i < p.sent; i++ {
		p.queue[i].Uncertain = true
	}
	p.sent = 0
}

// learn draws the conclusion from how a session ended.
func (p *Publisher) learn(n *nodes.Node, err error) {
	var r batch.Refusal
	if errors.As(err, &r) && r.Kind == api.PublishError_INVALID {
		p.waits.Serves() // the node is in order
		p.refused(r)
		return
	}
	e, _ := refusal(err)
	p.client.nodes.Failed(n)
	p.waits.Failed(n.Address, e)
	var gap batch.GapError
	switch {
	case errors.Is(err, batch.ErrUnknownProducer):
		p.unknown()
	case errors.As(err, &gap):
		p.gap(gap)
	case errors.Is(e, ErrDenied):
		p.fail(e.at(n.Address))
	}
}
