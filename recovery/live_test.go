package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"chorale/message"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"
)

// draft fills the model with n messages over a small tree, before anything runs,
// so that readers can compare while the writer writes.
func (w *world) draft(n int, rng *rand.Rand) {
	for i := range n {
		name := fmt.Sprintf("p%d/q/t%d", rng.IntN(6), rng.IntN(8))
		id, _ := w.table.Intern([]byte(name))
		seq := uint64(i + 1)
		w.all = append(w.all, message.NewRecord(message.Draft{Payload: make([]byte, rng.IntN(120))}, id, seq, w.last[id], int64(i/10)))
		w.last[id] = seq
	}
}

// TestCursorsBesideWriter runs cursors at once with the writer, whose ring is so
// small that they fall off all the time, with the builder, and with edits. For the
// race detector above all.
func TestCursorsBesideWriter(t *testing.T) {
	w := newWorld(t, tip.MinBytes, 20_000)
	w.draft(20_000, rand.New(rand.NewPCG(1, 1)))
	end := uint64(len(w.all))
	ctx, stop := context.WithCancel(context.Background())
	var builder, readers sync.WaitGroup
	builder.Go(func() {
		if err := w.history.Build(ctx); err != nil {
			t.Error(err)
		}
	})
	lists := [][]string{{"**"}, {"p1/**"}, {"p2/q/t3"}, {"*/q/t1", "p0/**"}, {"p9/none"}, {"**"}}
	for i, list := range lists {
		readers.Go(func() {
			f, err := topic.ParseFilters(list...)
			if err != nil {
				t.Error(err)
				return
			}
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			s := w.subscribe(f, 0)
			for s.pos < end {
				if err := w.next(ctx, s, 1+rng.IntN(5000)); err != nil {
					t.Error(err)
					break
				}
				if rng.IntN(50) == 0 { // a client comes back
					s.Close()
					s = w.subscribe(f, s.pos)
				}
			}
			s.Close()
		})
	}
	w.replay(t, rand.New(rand.NewPCG(3, 3)))
	readers.Wait()
	stop()
	builder.Wait()
}

// replay applies the model in entries of random length and commits what is built.
func (w *world) replay(t *testing.T, rng *rand.Rand) {
	for at := 0; at < len(w.all); {
		for range min(1+rng.IntN(40), len(w.all)-at) {
			w.append(w.all[at])
			at++
		}
		w.history.Publish()
		w.tip.Publish()
		check(t, w.history.CutIfFull())
		for _, m := range w.history.Proposals() {
			refused, mismatch := w.history.Install(segments.Edit{Add: []segments.FileMeta{m}})
			check(t, errors.Join(refused, mismatch))
		}
	}
}

// TestCursorWaitsAtTheEnd: at the live end Next blocks until there is news, and no
// longer than its context.
func TestCursorWaitsAtTheEnd(t *testing.T) {
	w := newWorld(t, tip.MinBytes, 1000)
	f, err := topic.ParseFilters("a")
	check(t, err)
	s := w.subscribe(f, 0)
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.publish([]string{"b", "a"}, func() int { return 1 }) })
	check(t, w.nextAfter(ctx, s, &wg))
	cancel()
	if err := w.next(ctx, s, 100); !errors.Is(err, context.Canceled) {
		t.Fatalf("want the context's error, have %v", err)
	}
	if s.Position() != 2 {
		t.Fatalf("position %d, want 2", s.Position())
	}
}

// TestCursorIsTakenOver: a cursor that stands in the tip goes on where another tip has taken its
// place, also if that holds the next message.
func TestCursorIsTakenOver(t *testing.T) {
	w := newWorld(t, tip.MinBytes, 1000)
	f, err := topic.ParseFilters("**")
	check(t, err)
	s := w.subscribe(f, 0)
	defer s.Close()
	one := func() int { return 1 }
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for range 3 {
		w.publish([]string{"a"}, one)
		check(t, w.next(ctx, s, 100))
		fuller := tip.New(w.ring)
		fuller.Reset(uint64(len(w.all) + 1))
		if !w.tip.Become(fuller) {
			t.Fatal("not taken over")
		}
	}
	if s.Position() != 3 {
		t.Errorf("position %d, want 3", s.Position())
	}
}

// nextAfter reads without the model, which the writer is filling, and only then
// compares.
func (w *world) nextAfter(ctx context.Context, s *subscriber, writer *sync.WaitGroup) error {
	b, p, err := s.Next(ctx, nil, 100)
	writer.Wait()
	if p.Count != 1 || len(b) == 0 || p.Scanned != 2 {
		w.t.Fatalf("%d messages, scanned %d", p.Count, p.Scanned)
	}
	s.pos = p.Scanned
	return err
}
