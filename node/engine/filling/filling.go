// Package filling fills the tip from the history behind a restore, so that a node that was
// started serves recoveries from memory again, without that its start waits for it.
//
// The tip grows at its head alone, and messages come in while older ones are read. So
// another tip is filled, from an earlier message on, by a cursor that reads as a subscriber
// does, from the history and then from the tip that is in use; when it has come to the head,
// it takes that one's place. Both are in memory until then: the full ring, and what came in
// since the restore.
package filling

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"chorale/message"
	"chorale/recovery"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/go-hclog"
)

const (
	// pieceBytes is how much is read at a time.
	pieceBytes = 1 << 20
	// retryWait is how long the history has for getting a missing file.
	retryWait = 5 * time.Second
	// tellEvery is how often the log says how far it is.
	tellEvery = 10 * time.Second
)

// Options of a Filler.
type Options struct {
	// Source is what subscribers read. Its tip is the one that is filled.
	Source recovery.Source
	// Still runs a function while nobody appends to the tip.
	Still func(func())
	// Ready is closed when the node serves: nothing is filled before.
	Ready <-chan struct{}
	Log   hclog.Logger
}

// Filler is safe for concurrent use.
type Filler struct {
	o     Options
	again chan struct{} // capacity 1: the tip was emptied

	mu     sync.Mutex
	status Status
}

// Status is how far a fill is.
type Status struct {
	// From and At are the oldest message of the tip that is filled and the newest; zero
	// while none is.
	From, At uint64
	// Fills counts those that came to their end.
	Fills int
}

// New returns a Filler that does nothing before Run.
func New(o Options) *Filler { return &Filler{o: o, again: make(chan struct{}, 1)} }

// Again says that the tip was emptied.
func (f *Filler) Again() {
	select {
	case f.again <- struct{}{}:
	default:
	}
}

// Status may be called by any goroutine.
func (f *Filler) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *Filler) note(from, at uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.From, f.status.At = from, at
}

// Run fills the tip whenever it was emptied, until ctx ends; nil then.
func (f *Filler) Run(ctx context.Context) error {
	select {
	case <-f.o.Ready:
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case <-f.again:
		case <-ctx.Done():
			return nil
		}
		for err := f.fill(ctx); err != nil && ctx.Err() == nil; err = f.fill(ctx) {
			f.o.Log.Debug("the tip cannot be filled yet", "error", err)
			select {
			case <-time.After(retryWait):
			case <-ctx.Done():
			}
		}
	}
}

// all is every message.
func all() *topic.Filters {
	f, err := topic.ParseFilters("**")
	if err != nil {
		panic(err)
	}
	return f
}

// fill fills another tip, if there is something to fill it with, and lets it take over.
func (f *Filler) fill(ctx context.Context) error {
	live := f.o.Source.Tip
	from, err := f.begin()
	if err != nil || from == 0 {
		return err
	}
	defer f.note(0, 0)
	begun := time.Now()
	f.o.Log.Info("filling the tip from the history", "from", from, "to", live.Head())
	fuller := tip.New(live.Stats().Capacity)
	fuller.Reset(from)
	c := recovery.NewCursor(f.o.Source, all(), from-1)
	defer c.Close()
	var buf []byte
	told := begun
	for done := false; !done; {
		if room(live) == 0 {
			return nil // it was filled by what came in meanwhile
		}
		if buf, err = f.read(ctx, c, fuller, buf); err != nil {
			return err
		}
		f.note(from, c.Position())
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			f.o.Log.Info("filling the tip", "at", c.Position(), "to", live.Head())
		}
		if c.Position() >= live.Head() {
			f.o.Still(func() { done, err = f.join(ctx, c, fuller, buf) })
			if err != nil {
				return err
			}
		}
	}
	f.mu.Lock()
	f.status.Fills++
	f.mu.Unlock()
	f.o.Log.Info("the tip is filled", "from", live.Floor(), "messages", live.Head()+1-live.Floor(), "took", time.Since(begun).Round(time.Millisecond))
	return nil
}

// read appends the next piece to a tip.
func (f *Filler) read(ctx context.Context, c *recovery.Cursor, to *tip.Tip, buf []byte) ([]byte, error) {
	next := c.Position() + 1
	buf, _, err := c.Next(ctx, buf[:0], pieceBytes)
	for rest := buf; len(rest) > 0; {
		size := message.Record(rest).Size()
		r := message.Record(rest[:size])
		if r.Seq() != next {
			return buf, fmt.Errorf("messages from %d on have gone meanwhile", next)
		}
		next++
		to.Append(f.o.Source.Topics.Partition(r.Topic()), r)
		rest = rest[message.Stride(size):]
	}
	to.Publish()
	return buf, err
}

// join reads what came in since the last look, which is in the tip, and lets the other tip
// take its place. It is called while nobody appends.
func (f *Filler) join(ctx context.Context, c *recovery.Cursor, fuller *tip.Tip, buf []byte) (done bool, err error) {
	live := f.o.Source.Tip
	for c.Position() < live.Head() {
		if c.Position()+1 < live.Floor() {
			return false, nil // the tip was emptied again
		}
		if buf, err = f.read(ctx, c, fuller, buf); err != nil {
			return false, err
		}
	}
	if fuller.Floor() >= live.Floor() || !live.Become(fuller) {
		return false, fmt.Errorf("the tip holds %d to %d, the one that was filled %d to %d", live.Floor(), live.Head(), fuller.Floor(), c.Position())
	}
	return true, nil
}

// room is how many bytes of earlier messages the tip has room for: 0 if it is hardly worth
// it. Some is left, so that the first messages to come in evict nothing.
func room(t *tip.Tip) int64 {
	s := t.Stats()
	if n := s.Capacity/8*7 - s.Bytes; n > s.Capacity/8 {
		return n
	}
	return 0
}

// begin is the oldest message that the tip has room for, 0 if it is not worth it.
func (f *Filler) begin() (from uint64, err error) {
	s := f.o.Source
	left, floor := room(s.Tip), s.Tip.Floor()
	for _, r := range slices.Backward(s.History.Manifest().Ranges()) {
		if left == 0 || r.First >= floor {
			continue
		}
		if !r.Full() {
			break // the tip has every seq
		}
		last := min(r.Last, floor-1)
		var bytes int64
		err := s.History.Explain(topic.NewSelection(s.Topics, all()), segments.Floors{}, r.First-1, last, func(p segments.Plan) error {
			bytes += int64(p.Bytes.Estimate)
			return nil
		})
		if err != nil {
			return 0, err
		}
		if from = r.First; bytes > left {
			from = last - uint64(float64(last-r.First)*float64(left)/float64(bytes))
			bytes = left
		}
		left -= bytes
	}
	return from, nil
}
