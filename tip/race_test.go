package tip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorale/message"
	"chorale/topic"
)

// TestLapped races readers of every kind with a writer that laps them again and
// again: what they get is whole, in order, and all that they wanted, or they are
// told that it has left.
func TestLapped(t *testing.T) {
	messages := uint64(400_000)
	if testing.Short() || raceEnabled {
		messages = 60_000
	}
	table := topic.NewTable()
	tip := small(32 << 10)
	var names [40]string
	for i := range names {
		names[i] = fmt.Sprintf("t/%d/%d", i%8, i/8)
		table.Intern([]byte(names[i]))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var evicted, delivered atomic.Int64
	for n, filters := range [][]string{{"**"}, {"t/**"}, {"t/3/**"}, {"t/3/1"}, {"t/1/**", "t/2/**", "t/5/0"}, {"t/*/2"}} {
		for _, method := range []Method{Planned, Linear, Indexed} {
			wg.Go(func() {
				l := lapReader{t: t, tip: tip, table: table, limit: 100 + 700*n}
				l.filters, _ = topic.ParseFilters(filters...)
				l.reader = tip.NewReader(topic.NewSelection(table, l.filters), 0)
				l.reader.Force(method)
				for !t.Failed() && tip.Wait(ctx, l.scanned) == nil {
					l.read()
				}
				evicted.Add(l.evicted)
				delivered.Add(l.delivered)
			})
		}
	}
	rnd := rand.New(rand.NewPCG(1, 0))
	last := map[uint32]uint64{}
	payload := make([]byte, 1200)
	for seq := uint64(1); seq <= messages && !t.Failed(); seq++ {
		id := rnd.Uint32N(uint32(len(names)))
		size := rnd.IntN(100)
		if rnd.IntN(200) == 0 {
			size = len(payload)
		}
		if seq%2000 < 1000 {
			size = 23 // records of 64 bytes, which fill chunks to the last byte
		}
		tip.Append(table.Partition(id), message.NewRecord(message.Draft{Payload: payload[:size]}, id, seq, last[id], 1))
		last[id] = seq
		if rnd.IntN(5) == 0 {
			tip.Publish()
		}
		switch rnd.IntN(20_000) {
		case 0, 1:
			seq += rnd.Uint64N(50)
			tip.Reset(seq + 1)
		case 2, 3, 4:
			tip.Publish()
			empty := small(16 << 10) // who read the other one finds nothing that is left
			empty.Reset(seq + 1)
			if !tip.Become(empty) {
				t.Error("not taken over")
			}
		}
	}
	tip.Publish()
	stop()
	wg.Wait()
	if evicted.Load() == 0 || delivered.Load() == 0 {
		t.Errorf("%d messages were delivered, readers fell off %d times: this tested nothing", delivered.Load(), evicted.Load())
	}
}

// TestOvertakenWhileGathering races a reader at the very floor, with so many
// partitions that chunks leave while it looks through their indexes: it is evicted,
// or gets every single message.
func TestOvertakenWhileGathering(t *testing.T) {
	const partitions = 2000
	messages := uint64(300_000)
	if testing.Short() || raceEnabled {
		messages = 60_000
	}
	table, tip := topic.NewTable(), small(8<<10)
	for i := range partitions {
		table.Intern(fmt.Appendf(nil, "t/%d/x", i))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		r := tip.NewReader(selection(t, table, "t/**"), 0)
		r.Force(Indexed)
		var buf []byte
		for scanned := uint64(0); tip.Wait(ctx, scanned) == nil && !t.Failed(); {
			var p message.Progress
			buf, p, _ = r.Read(buf[:0], 1<<20)
			if uint64(p.Count) != p.Scanned-scanned {
				t.Errorf("%d messages from %d to %d", p.Count, scanned+1, p.Scanned)
			}
			scanned = max(p.Scanned, tip.Floor()-1)
			r.Seek(scanned)
		}
	})
	for _, filter := range []string{"t/**", "**"} {
		wg.Go(func() { // who weighs is evicted as well, or counts every message
			for sel := selection(t, table, filter); ctx.Err() == nil; {
				after, until := tip.Floor()-1, tip.Head()
				s, err := tip.Weigh(sel, after, until)
				if err == nil && after < until && (s.Messages != until-after || s.LowBytes != 56*s.Messages || s.HighBytes < s.LowBytes) {
					t.Errorf("%+v of %d messages", s, until-after)
				}
			}
		})
	}
	r := message.NewRecord(message.Draft{Payload: make([]byte, 10)}, 0, 1, 0, 1)
	for seq := uint64(1); seq <= messages; seq++ {
		r.Stamp(uint32(seq*7919%partitions), seq, 0, 1)
		tip.Append(r.Topic(), r)
		tip.Publish()
	}
	stop()
	wg.Wait()
}

// lapReader checks what it reads by the messages alone: checksums, order, and the
// chain of each topic.
type lapReader struct {
	t       *testing.T
	tip     *Tip
	table   *topic.Table
	filters *topic.Filters
	reader  *Reader
	limit   int
	scanned uint64
	last    map[uint32]uint64 // of topics met since the reader last fell off
	fell    uint64            // where that was
	buf     []byte

	evicted, delivered int64
}

func (l *lapReader) read() {
	if l.last == nil {
		l.last = map[uint32]uint64{}
	}
	var p message.Progress
	var err error
	l.buf, p, err = l.reader.Read(l.buf[:0], l.limit)
	seq, rest := l.scanned, l.buf
	for len(rest) > 0 {
		r, tail, bad := l.next(rest)
		if bad != nil {
			l.t.Error(bad)
			return
		}
		rest = tail
		if r.Seq() <= seq || r.Seq() > p.Scanned {
			l.t.Errorf("seq %d behind %d, scanned %d", r.Seq(), seq, p.Scanned)
		}
		seq = r.Seq()
		if want, ok := l.last[r.Topic()]; ok && r.Prev() != want || !ok && r.Prev() > l.fell {
			l.t.Errorf("%v: seq %d says %d is before it, %d was", l.filters.Canonical(), seq, r.Prev(), want)
		}
		l.last[r.Topic()] = seq
		l.delivered++
	}
	l.scanned = p.Scanned
	if errors.Is(err, ErrEvicted) {
		l.scanned = max(l.scanned, l.tip.Floor()-1)
		l.reader.Seek(l.scanned)
		l.last, l.fell = map[uint32]uint64{}, l.scanned
		l.evicted++
	}
}

func (l *lapReader) next(b []byte) (message.Record, []byte, error) {
	r, rest, err := message.Split(b)
	if err != nil {
		return nil, nil, err
	}
	if err := r.Check(); err != nil {
		return nil, nil, err
	}
	if !l.filters.Match(l.table.Name(r.Topic())) {
		return nil, nil, fmt.Errorf("%v: topic %s was not asked for", l.filters.Canonical(), l.table.Name(r.Topic()))
	}
	return r, rest, nil
}

// TestWait: everybody who waits is woken by the message that ends the wait, and by
// nothing before.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip := New(MinBytes)
		ctx, cancel := context.WithCancel(t.Context())
		woken := map[string]error{}
		var mu sync.Mutex
		wait := func(name string, after uint64) {
			err := tip.Wait(ctx, after)
			mu.Lock()
			defer mu.Unlock()
			woken[name] = err
		}
		expect := func(names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(woken) != len(names) {
				t.Fatalf("woken are %v, want %v", woken, names)
			}
			for _, name := range names {
				if err, ok := woken[name]; !ok || err != nil {
					t.Fatalf("woken are %v, want %v", woken, names)
				}
			}
		}
		go wait("a", 0)
		go wait("b", 0)
		go wait("c", 1)
		go wait("d", 10)
		expect()
		tip.Append(0, message.NewRecord(message.Draft{}, 0, 1, 0, 1))
		expect() // not published
		tip.Publish()
		expect("a", "b")
		tip.Append(0, message.NewRecord(message.Draft{}, 0, 2, 1, 1))
		tip.Publish()
		expect("a", "b", "c")
		cancel()
		synctest.Wait()
		if err := woken["d"]; !errors.Is(err, context.Canceled) {
			t.Fatalf("wait ended by %v", err)
		}
		if err := tip.Wait(ctx, 1); err != nil {
			t.Fatalf("what is there needs no waiting: %v", err)
		}
	})
}

// TestNoWakeIsLost: a message that is published while a reader begins to wait ends
// the wait, though no other follows.
func TestNoWakeIsLost(t *testing.T) {
	tip := New(MinBytes)
	var begins atomic.Uint64 // both spin up to it, to meet within nanoseconds
	woken := make(chan error, 1)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var wg sync.WaitGroup
	const messages = 30_000
	wg.Go(func() {
		for seq := uint64(1); seq <= messages; seq++ {
			for n := 0; begins.Load() < seq; n++ {
				if n > 1000 {
					runtime.Gosched() // the writer may have no processor
				}
			}
			woken <- tip.Wait(ctx, seq-1)
		}
	})
	rnd := rand.New(rand.NewPCG(1, 0))
	for seq := uint64(1); seq <= messages; seq++ {
		tip.Append(0, message.NewRecord(message.Draft{}, 0, seq, seq-1, 1))
		begins.Store(seq)
		for range rnd.IntN(200) {
			begins.Load()
		}
		tip.Publish()
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// TestTakenOverWakes: who waits for a tip that another one replaces waits for that one from
// then on.
func TestTakenOverWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tip, fuller := New(MinBytes), New(MinBytes)
		woken := false
		go func() {
			if err := tip.Wait(t.Context(), 0); err == nil {
				woken = true
			}
		}()
		synctest.Wait()
		if !tip.Become(fuller) {
			t.Fatal("not taken over")
		}
		synctest.Wait()
		tip.Append(0, message.NewRecord(message.Draft{}, 0, 1, 0, 1))
		tip.Publish()
		synctest.Wait()
		if !woken {
			t.Error("the message behind the takeover woke nobody")
		}
	})
}
