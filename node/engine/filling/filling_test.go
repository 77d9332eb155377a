package filling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chorale/disk"
	"chorale/message"
	"chorale/recovery"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node's history and tip, with the naive model: a slice.
type world struct {
	t      *testing.T
	rnd    *rand.Rand
	source recovery.Source
	last   map[uint32]uint64

	mu  sync.Mutex // held while something is appended
	all []message.Record
}

func newWorld(t *testing.T, seed uint64, ring int64) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), last: make(map[uint32]uint64)}
	topics := topic.NewTable()
	log, err := segments.Open(segments.Options{FS: disk.NewMem(seed).Mount(), Dir: "segments", Topics: topics, PendingStretches: 2})
	if err != nil {
		t.Fatal(err)
	}
	w.source = recovery.Source{History: log, Tip: tip.New(ring), Topics: topics}
	return w
}

// publish appends a few messages as the state machine does: to the history first.
func (w *world) publish(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.source
	for range n {
		id, _ := s.Topics.Intern(fmt.Appendf(nil, "a/p%d/t%d", w.rnd.IntN(5), w.rnd.IntN(4)))
		seq := uint64(len(w.all) + 1)
		r := message.NewRecord(message.Draft{Payload: make([]byte, w.rnd.IntN(300))}, id, seq, w.last[id], int64(seq))
		w.last[id] = seq
		w.all = append(w.all, r)
		s.History.Append(s.Topics.Partition(id), r)
		s.Tip.Append(s.Topics.Partition(id), r)
	}
	s.History.Publish()
	s.Tip.Publish()
}

// segment makes a file of what was published since the last one.
func (w *world) segment() {
	w.mu.Lock()
	defer w.mu.Unlock()
	must := func(err error) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	must(w.source.History.Cut())
	for more := true; more; {
		var err error
		more, err = w.source.History.BuildOne()
		must(err)
	}
	refused, mismatch := w.source.History.Install(segments.Edit{Add: w.source.History.Proposals()})
	must(errors.Join(refused, mismatch))
}

// restart is what a restore does to the tip: only what is in no file is in it.
func (w *world) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	files := w.source.History.Manifest().Files
	next := files[len(files)-1].Last + 1
	w.source.Tip.Reset(next)
	for _, r := range w.all[next-1:] {
		w.source.Tip.Append(w.source.Topics.Partition(r.Topic()), r)
	}
	w.source.Tip.Publish()
}

func (w *world) filler() *Filler {
	ready := make(chan struct{})
	close(ready)
	return New(Options{Source: w.source, Ready: ready, Log: hclog.NewNullLogger(), Still: func(f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	}})
}

// whole checks that the tip holds the newest messages, each as it was.
func (w *world) whole() {
	w.t.Helper()
	floor := w.source.Tip.Floor()
	r := w.source.Tip.NewReader(topic.NewSelection(w.source.Topics, all()), floor-1)
	buf, p, err := r.Read(nil, 1<<30)
	if err != nil || p.Scanned != uint64(len(w.all)) {
		w.t.Fatalf("read from %d to %d of %d: %v", floor, p.Scanned, len(w.all), err)
	}
	var want []byte
	for _, r := range w.all[floor-1:] {
		want = message.AppendPadded(want, r)
	}
	if !bytes.Equal(buf, want) {
		w.t.Fatalf("from %d on the tip holds something else", floor)
	}
}

// TestFill: the tip is full again behind a restart, with what was published meanwhile, and
// readers miss nothing.
func TestFill(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, int64(8<<10+w(seed)*7<<10))
			for range 2 + w.rnd.IntN(12) {
				w.publish(20 + w.rnd.IntN(60))
				w.segment()
			}
			w.publish(w.rnd.IntN(10))
			w.restart()
			before := w.source.Tip.Stats()
			ctx, stop := context.WithCancel(t.Context())
			f := w.filler()
			f.Again()
			var g sync.WaitGroup
			g.Go(func() {
				if err := f.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			for range 3 {
				from := w.rnd.Uint64N(uint64(len(w.all)))
				g.Go(func() { w.follow(ctx, from) })
			}
			for range 40 {
				w.publish(w.rnd.IntN(4))
				if w.rnd.IntN(4) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			synctest.Wait()
			w.publish(1)
			synctest.Wait()
			stop()
			g.Wait()
			w.whole()
			after := w.source.Tip.Stats()
			if f.Status().From != 0 {
				t.Errorf("it still fills: %+v", f.Status())
			}
			// It was worth it unless the restart left much in the tip.
			if f.Status().Fills == 0 && before.Bytes < before.Capacity/2 || after.Bytes < min(before.Capacity/2, int64(len(w.all))*50) {
				t.Errorf("seed %d: %d fills, the tip went from %+v to %+v", seed, f.Status().Fills, before, after)
			}
		})
	}
}

// w spreads the sizes of rings.
func w(seed uint64) uint64 { return seed % 7 }

// follow reads everything from a position on, as a subscriber does.
func (w *world) follow(ctx context.Context, after uint64) {
	c := recovery.NewCursor(w.source, all(), after)
	defer c.Close()
	at := after
	for {
		buf, _, err := c.Next(ctx, nil, 4<<10)
		for len(buf) > 0 {
			r := message.Record(buf)
			if at++; r.Seq() != at {
				w.t.Errorf("seq %d behind %d", r.Seq(), at-1)
				return
			}
			buf = buf[message.Stride(r.Size()):]
		}
		switch {
		case ctx.Err() != nil:
			if at != uint64(len(w.all)) {
				w.t.Errorf("read from %d to %d of %d", after+1, at, len(w.all))
			}
			return
		case err != nil:
			w.t.Error(err)
			return
		}
	}
}

// TestEmptiedAgain: a restore in the middle of a fill begins another one.
func TestEmptiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 64<<10)
		for range 6 {
			w.publish(50)
			w.segment()
		}
		w.restart()
		ctx, stop := context.WithCancel(t.Context())
		f := w.filler()
		still, emptied := f.o.Still, false
		f.o.Still = func(join func()) {
			if !emptied {
				emptied = true
				w.publish(20)
				w.segment()
				w.restart()
				f.Again()
			}
			still(join)
		}
		f.Again()
		var g sync.WaitGroup
		g.Go(func() { _ = f.Run(ctx) })
		synctest.Wait()
		time.Sleep(2 * retryWait)
		stop()
		g.Wait()
		w.whole()
		if w.source.Tip.Floor() > 120 || f.Status().Fills == 0 {
			t.Errorf("%+v, the tip begins at %d", f.Status(), w.source.Tip.Floor())
		}
	})
}

// TestNothingToFill: nothing is done where there is nothing older, or no room for it.
func TestNothingToFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 16<<10)
		f := w.filler()
		if from, err := f.begin(); from != 0 || err != nil {
			t.Errorf("an empty stream is filled from %d: %v", from, err)
		}
		w.publish(30)
		w.segment()
		if from, err := f.begin(); from != 0 || err != nil {
			t.Errorf("a tip that holds everything is filled from %d: %v", from, err)
		}
		w.publish(300)
		w.segment()
		if from, err := f.begin(); from != 0 || err != nil {
			t.Errorf("a full tip is filled from %d: %v", from, err)
		}
	})
}
