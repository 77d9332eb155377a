package recovery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/recovery"
	"chorale/retention"
	"chorale/segments"
	"chorale/segments/partial"
	"chorale/tip"
	"chorale/topic"

	"pgregory.net/rapid"
)

// world is one node's stream and, beside it, the naive model: a slice of messages
// and a filter function.
type world struct {
	t       rapid.TB
	fsys    *disk.Mem
	read    int64 // bytes, through the file systems of open
	table   *topic.Table
	history *segments.Log
	tip     *tip.Tip
	ring    int64
	target  int64

	all    []message.Record // the model: seq i+1 at i
	last   map[uint32]uint64
	time   int64
	copies map[segments.Hash][]byte // what a peer would send
	risen  []retention.Floor        // floors, as they came
	floors *retention.Floors
	// filters are those of floors, parsed.
	filters map[string]*topic.Filters
}

func newWorld(t rapid.TB, ring, target int64) *world {
	w := &world{
		t: t, fsys: disk.NewMem(1), table: topic.NewTable(), tip: tip.New(ring), ring: ring, target: target,
		last: make(map[uint32]uint64), copies: make(map[segments.Hash][]byte),
		filters: make(map[string]*topic.Filters),
	}
	w.history = w.open()
	w.history.SetTarget(target)
	return w
}

func (w *world) open() *segments.Log {
	l, err := segments.Open(segments.Options{FS: counted{w.fsys.Mount(), &w.read}, Dir: "data", Topics: w.table, PendingStretches: 3})
	check(w.t, err)
	return l
}

func (w *world) source() recovery.Source {
	return recovery.Source{History: w.history, Tip: w.tip, Topics: w.table, Floors: func() *retention.Floors { return w.floors }}
}

// publish applies one entry: segment first, tip last.
func (w *world) publish(names []string, payload func() int) {
	w.time += int64(len(names) % 3)
	for _, name := range names {
		id, _ := w.table.Intern([]byte(name))
		seq := uint64(len(w.all) + 1)
		r := message.NewRecord(message.Draft{Payload: make([]byte, payload())}, id, seq, w.last[id], w.time)
		w.last[id] = seq
		w.all = append(w.all, r)
		w.append(r)
	}
	w.history.Publish()
	w.tip.Publish()
	check(w.t, w.history.CutIfFull())
}

func (w *world) append(r message.Record) {
	p := w.table.Partition(r.Topic())
	w.history.Append(p, r)
	w.tip.Append(p, r)
}

func (w *world) build() {
	_, err := w.history.BuildOne()
	check(w.t, err)
}

// install commits what is proposed.
func (w *world) install() {
	for _, m := range w.history.Proposals() {
		refused, mismatch := w.history.Install(segments.Edit{Add: []segments.FileMeta{m}})
		check(w.t, errors.Join(refused, mismatch))
		b, err := w.fsys.ReadFile("data/" + m.Name())
		check(w.t, err)
		w.copies[m.Hash] = b
	}
}

// restore applies a snapshot of the state to l, which may be the log itself.
func (w *world) restore(l *segments.Log) {
	manifest, pending := w.history.Manifest(), w.history.Pending()
	next := uint64(len(w.all) + 1)
	if len(pending) > 0 {
		next = pending[0].First
	}
	w.history = l
	check(w.t, l.Restore(manifest, next))
	l.SetTarget(w.target)
	w.tip.Reset(next)
	for _, s := range pending {
		for _, b := range s.Chunks {
			for len(b) > 0 {
				r, rest, err := message.Split(b)
				check(w.t, err)
				w.append(r)
				b = rest
			}
		}
		if s.Closed {
			check(w.t, l.Cut())
		}
	}
	l.Publish()
	w.tip.Publish()
}

// repair fetches what is missing.
func (w *world) repair() {
	for _, m := range w.history.Missing() {
		s, err := partial.Open(w.fsys, "partial")
		check(w.t, err)
		p, err := s.Resume(m)
		check(w.t, err)
		_, err = p.Write(w.copies[m.Hash])
		check(w.t, err)
		check(w.t, w.history.Import(p))
	}
}

// subscriber is a cursor and what is known of it.
type subscriber struct {
	*recovery.Cursor
	filters *topic.Filters
	pos     uint64
	told    []retention.Floor
}

func (w *world) subscribe(f *topic.Filters, after uint64) *subscriber {
	return &subscriber{recovery.NewCursor(w.source(), f, after), f, after, nil}
}

// next reads once and compares with the model: what is delivered is exactly what
// is wanted of (position before, position after].
func (w *world) next(ctx context.Context, s *subscriber, limit int) error {
	b, p, err := s.Next(ctx, nil, limit)
	if p.Scanned < s.pos || p.Scanned > uint64(len(w.all)) || p.Scanned != s.Position() {
		w.t.Fatalf("scanned %d, cursor at %d, it was at %d of %d", p.Scanned, s.Position(), s.pos, len(w.all))
	}
	if err == nil && p.Scanned == s.pos {
		w.t.Fatalf("no news and no progress at %d", s.pos)
	}
	if p.Count > 1 && len(b) > limit {
		w.t.Fatalf("%d bytes in %d messages, the limit is %d", len(b), p.Count, limit)
	}
	count := 0
	s.told = append(s.told, s.News()...)
	for _, want := range w.all[s.pos:p.Scanned] {
		if !s.filters.Match(w.table.Name(want.Topic())) {
			continue
		}
		if w.gone(w.risen, want) {
			if !w.gone(s.told, want) {
				w.t.Fatalf("behind %d: %d of %q has gone, and the floors told are %v", s.pos, want.Seq(), w.table.Name(want.Topic()), s.told)
			}
			continue
		}
		r, rest, splitErr := message.Split(b)
		if splitErr != nil || !bytes.Equal(r, want) {
			w.t.Fatalf("behind %d: want seq %d of %q, have %v", s.pos, want.Seq(), w.table.Name(want.Topic()), r)
		}
		b = rest
		count++
	}
	if len(b) > 0 || count != p.Count {
		w.t.Fatalf("behind %d: %d messages wanted, %d counted, %d bytes are over", s.pos, count, p.Count, len(b))
	}
	s.pos = p.Scanned
	return err
}

// gone is what floors say, by the filters alone.
func (w *world) gone(floors []retention.Floor, r message.Record) bool {
	for _, f := range floors {
		if r.Seq() < f.Seq && w.parsed(f.Filter).Match(w.table.Name(r.Topic())) {
			return true
		}
	}
	return false
}

// parsed is a filter, which many messages are held against.
func (w *world) parsed(filter string) *topic.Filters {
	f := w.filters[filter]
	if f == nil {
		var err error
		f, err = topic.ParseFilters(filter)
		check(w.t, err)
		w.filters[filter] = f
	}
	return f
}

// rise lets a floor rise.
func (w *world) rise(filter string, seq uint64) {
	f := retention.Floor{Filter: filter, Seq: seq}
	w.risen = append(w.risen, f)
	w.floors = w.floors.With(f)
}

// left is the oldest seq that is left of what the filters want, and at least the oldest of all.
func (w *world) left(f *topic.Filters) uint64 {
	return max(w.history.Oldest(), w.floors.Oldest(f.Canonical()))
}

func check(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names is a small tree in which every kind of filter finds something.
var names = rapid.Custom(func(t *rapid.T) string {
	a, b := rapid.IntRange(0, 3).Draw(t, "a"), rapid.IntRange(0, 5).Draw(t, "b")
	return rapid.SampledFrom([]string{
		"a", fmt.Sprintf("a-%d", b), fmt.Sprintf("a/%d", b), fmt.Sprintf("a/b%d/c%d", a, b), fmt.Sprintf("x%d/y/z%d", a, b),
	}).Draw(t, "name")
})

var someFilters = rapid.SliceOfN(rapid.SampledFrom([]string{
	"**", "a", "a/**", "a/1", "a/b1/**", "a/*/c2", "*", "*/y/**", "x0/y/z0", "x1/**", "*/*/z3", "nothing/here/**",
}), 1, 3)

// TestCursorAgainstModel is the claim of this room: whatever happens beside it, a
// cursor delivers exactly filter(stream), and its position never lies. Run more
// with -rapid.checks=100000.
func TestCursorAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { runModel(rt) })
}

func runModel(rt *rapid.T) {
	w := newWorld(rt, tip.MinBytes<<rapid.IntRange(0, 3).Draw(rt, "ring"), rapid.Int64Range(500, 30_000).Draw(rt, "target"))
	var subscribers []*subscriber
	payload := func() int { return rapid.IntRange(0, 300).Draw(rt, "payload") }
	pick := func() int { return rapid.IntRange(0, len(subscribers)-1).Draw(rt, "who") }
	ctx := context.Background()
	rt.Repeat(map[string]func(*rapid.T){
		"publish": func(rt *rapid.T) { w.publish(rapid.SliceOfN(names, 1, 60).Draw(rt, "entry"), payload) },
		"build":   func(*rapid.T) { w.build() },
		"install": func(*rapid.T) { w.install() },
		"subscribe": func(rt *rapid.T) {
			f, err := topic.ParseFilters(someFilters.Draw(rt, "filters")...)
			check(rt, err)
			after := rapid.Uint64Range(w.left(f)-1, w.history.End()).Draw(rt, "after")
			subscribers = append(subscribers, w.subscribe(f, after))
		},
		"read": func(rt *rapid.T) {
			if len(subscribers) == 0 {
				return
			}
			s := subscribers[pick()]
			for range rapid.IntRange(1, 10).Draw(rt, "reads") {
				if s.pos < w.history.End() {
					w.readOrRepair(ctx, s, rapid.IntRange(1, 4000).Draw(rt, "limit"))
				}
			}
		},
		"snapshot while live": func(*rapid.T) { w.restore(w.history) },
		"restart": func(*rapid.T) {
			w.restore(w.open())
			for i, s := range subscribers { // a client comes back where it was
				s.Close()
				subscribers[i] = w.subscribe(s.filters, s.pos)
			}
		},
		"explain": func(rt *rapid.T) {
			after := rapid.Uint64Range(w.history.Oldest()-1, w.history.End()).Draw(rt, "after")
			w.explain(ctx, someFilters.Draw(rt, "filters"), after)
		},
		"damage": func(rt *rapid.T) { w.damage(rt) },
		"a floor rises": func(rt *rapid.T) {
			filter := rapid.SampledFrom([]string{"a", "a/**", "a/1", "a/b1/**", "a/b2/c2", "x0/**", "x1/y/z0", "x1/y/**"}).Draw(rt, "rule")
			w.rise(filter, rapid.Uint64Range(1, w.history.End()+1).Draw(rt, "floor"))
		},
		"expire": func(*rapid.T) { w.expire() },
		"repair": func(*rapid.T) { w.repair() },
		"dismiss": func(*rapid.T) { // only so that few at a time are there
			if len(subscribers) > 4 {
				i := pick()
				subscribers[i].Close()
				subscribers = slices.Delete(subscribers, i, i+1)
			}
		},
	})
	w.repair()
	for _, s := range subscribers { // all catch up with the end
		for s.pos < w.history.End() {
			w.readOrRepair(ctx, s, 1<<20)
		}
		s.Close()
	}
}

// readOrRepair reads once; a part that is not here is fetched, one that is gone is
// skipped.
func (w *world) readOrRepair(ctx context.Context, s *subscriber, limit int) {
	err := w.next(ctx, s, limit)
	switch {
	case err == nil:
	case errors.Is(err, segments.ErrNotHere), errors.Is(err, segments.ErrCorrupt):
		w.repair()
	case errors.Is(err, segments.ErrExpired) && s.pos+1 < w.left(s.filters):
		for _, r := range w.all[max(s.pos, w.history.Oldest()-1) : w.left(s.filters)-1] {
			if s.filters.Match(w.table.Name(r.Topic())) && !w.gone(w.risen, r) {
				w.t.Fatalf("%v at %d, and %d is left", err, s.pos, r.Seq())
			}
		}
		s.Close()
		*s = *w.subscribe(s.filters, w.left(s.filters)-1)
	default:
		w.t.Fatal(err)
	}
}

// damage breaks a file on the disk behind the log's back.
func (w *world) damage(rt *rapid.T) {
	files := w.history.Manifest().Files
	if len(files) == 0 {
		return
	}
	m := files[rapid.IntRange(0, len(files)-1).Draw(rt, "file")]
	name := "data/" + m.Name()
	if b, _ := w.fsys.ReadFile(name); !bytes.Equal(b, w.copies[m.Hash]) {
		return // it is damaged already
	}
	switch rapid.IntRange(0, 2).Draw(rt, "how") {
	case 0:
		check(w.t, w.fsys.Lose(name))
	case 1:
		check(w.t, w.fsys.FlipBit(name, rapid.Int64Range(0, m.Bytes*8-1).Draw(rt, "bit")))
	case 2:
		check(w.t, w.fsys.Truncate(name, rapid.Int64Range(0, m.Bytes-1).Draw(rt, "size")))
	}
}

// expire removes the oldest file by an edit.
func (w *world) expire() {
	if files := w.history.Manifest().Files; len(files) > 3 {
		refused, mismatch := w.history.Install(segments.Edit{Remove: []segments.Hash{files[0].Hash}})
		check(w.t, errors.Join(refused, mismatch))
	}
}
