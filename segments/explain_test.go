package segments

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/segments/scan"
	"chorale/topic"
)

// watched is a file system that counts what is read.
type watched struct {
	disk.FS
	mu    sync.Mutex
	bytes uint64
	told  func(name string, off int64)
}

func (w *watched) Open(name string) (disk.File, error) {
	f, err := w.FS.Open(name)
	return watchedFile{f, w, name}, err
}

type watchedFile struct {
	disk.File
	fs   *watched
	name string
}

func (f watchedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.bytes += uint64(n)
	if f.fs.told != nil {
		f.fs.told(f.name, off)
	}
	return n, err
}

// read is how many bytes were read while work ran.
func (w *watched) read(work func()) uint64 {
	before := w.bytes
	work()
	return w.bytes - before
}

// cold is the same history with nothing in its caches, but what it knows of files.
func (s *stream) cold(t testing.TB, fsys disk.FS) *Log {
	t.Helper()
	m := s.log.Manifest()
	l, err := s.open(fsys)
	check(t, err)
	check(t, l.Restore(m, m.End()+1))
	for _, f := range s.log.view.Load().files {
		for _, g := range l.view.Load().files {
			if f == nil || g == nil || f.Path != g.Path {
				continue
			}
			if known := f.Places(); known != nil {
				g.LearnPlaces(known)
			}
		}
	}
	for _, r := range s.all[m.End():] {
		l.Append(s.table.Partition(r.Topic()), r)
	}
	l.Publish()
	return l
}

// mixed is a history of segments, layers and memory, cold.
func mixed(t testing.TB, fsys disk.FS, seed uint64) *stream {
	s := segmented(t, fsys, 7, 90, 300, seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	for range 1 + rng.IntN(2) {
		from := rng.IntN(5)
		stores, salt := 1+rng.IntN(9), rng.Uint32()
		s.compact(t, from, from+1+rng.IntN(2), stores, func(id uint32) int { return int((id ^ salt) % uint32(stores)) })
	}
	s.log.SetTarget(0)
	s.log = s.cold(t, fsys)
	s.entry(rng.IntN(60), picker(rng, 300))
	return s
}

func (s *stream) explain(t testing.TB, f *topic.Filters, after, until uint64) (plans []Plan) {
	t.Helper()
	check(t, s.log.Explain(topic.NewSelection(s.table, f), Floors{}, after, until, func(p Plan) error {
		plans = append(plans, p)
		return nil
	}))
	return plans
}

// readTo reads until the position is at least until.
func (s *stream) readTo(t testing.TB, l *Log, f *topic.Filters, after, until uint64, limit int) (looked, at uint64) {
	t.Helper()
	r := l.NewReader(topic.NewSelection(s.table, f), after)
	defer r.Close()
	for at = after; at < until; {
		_, p, err := r.Read(nil, limit)
		check(t, err)
		at = p.Scanned
	}
	return uint64(r.BytesLooked()), at
}

// world says which case a test is in.
type world struct {
	seed    uint64
	filters []string
	after   uint64
}

func (w world) String() string {
	return fmt.Sprintf("seed %d, %q behind %d", w.seed, w.filters, w.after)
}

func within(t testing.TB, w world, what string, a Amount, n uint64) {
	t.Helper()
	if n < a.Low || n > a.High || a.Estimate < a.Low || a.Estimate > a.High {
		t.Fatalf("%v: %s: %d, was to be %+v", w, what, n, a)
	}
}

// TestExplainAgainstReading: bytes that are read and looked through are those that were
// told, to the byte; messages are exact but for the range in whose middle the start
// lies, where they are within the bounds.
func TestExplainAgainstReading(t *testing.T) {
	for seed := range uint64(12) {
		fsys := &watched{FS: disk.NewMem(seed).Mount()}
		s := mixed(t, fsys, seed)
		rng := rand.New(rand.NewPCG(seed, 6))
		for range 30 {
			w := world{seed, someFilters[rng.IntN(len(someFilters))], rng.Uint64N(uint64(len(s.all)))}
			f := filters(t, w.filters...)
			plans := s.explain(t, f, w.after, s.log.End())
			var read, decoded, tables uint64
			at := w.after
			for _, p := range plans {
				if p.First != at+1 {
					t.Fatalf("%v: a plan from %d behind %d", w, p.First, at)
				}
				at = p.Last
				if !p.Read().Exact() || !p.Decoded.Exact() || p.Touched > p.Asked || p.Asked > p.Files || p.Cached > p.Read().High {
					t.Fatalf("%v: %+v", w, p)
				}
				read, decoded, tables = read+p.Read().High, decoded+p.Decoded.High, tables+p.Tables
				s.expectVolume(t, w, f, p, s.log.Manifest())
			}
			if at != s.log.End() {
				t.Fatalf("%v: plans end at %d, the history at %d", w, at, s.log.End())
			}
			l := s.cold(t, fsys)
			l.scans.Window = 1 << (8 + rng.IntN(12))
			var looked uint64
			if n := fsys.read(func() { looked, _ = s.readTo(t, l, f, w.after, l.End(), 1+rng.IntN(5000)) }); n != read || looked != decoded+tables {
				t.Fatalf("%v: %d bytes were read of %d, %d looked through of %d+%d: %+v", w, n, read, looked, decoded, tables, plans)
			}
		}
	}
}

// expectVolume compares what a plan says of messages with the model.
func (s *stream) expectVolume(t testing.TB, w world, f *topic.Filters, p Plan, m Manifest) {
	t.Helper()
	var messages, bytes uint64
	for _, r := range s.all[p.First-1 : p.Last] {
		if s.left(r) && f.Match(s.table.Name(r.Topic())) {
			messages++
			bytes += uint64(message.Stride(len(r)))
		}
	}
	within(t, w, "messages", p.Messages, messages)
	within(t, w, "bytes", p.Bytes, bytes)
	i := m.Find(p.First)
	if s.highest() == 0 && (i == len(m.Files) || m.Files[i].First == p.First) && !(p.Messages.Exact() && p.Bytes.Exact()) {
		t.Fatalf("%v: the start of a range, and yet not exact: %+v", w, p)
	}
}

// explain compares what a node tells with the model, also where it goes on reading what
// a layer has replaced.
func (c *cluster) explain(t *testing.T, n *member) {
	t.Helper()
	w := world{0, someFilters[c.rng.IntN(len(someFilters))], n.log.Oldest() - 1}
	w.after += c.rng.Uint64N(n.log.End() - w.after + 1)
	f := filters(t, w.filters...)
	at := w.after
	floors := Floors{Highest: n.highest(), Of: func(id uint32) uint64 { return n.floors[id] }}
	err := n.log.Explain(topic.NewSelection(n.table, f), floors, w.after, n.log.End(), func(p Plan) error {
		if p.First != at+1 || p.Touched > p.Asked || p.Asked > p.Files {
			t.Fatalf("%v, at %d: %+v", w, at, p)
		}
		at = p.Last
		n.expectVolume(t, w, f, p, n.log.Manifest())
		return nil
	})
	if errors.Is(err, ErrNotHere) || errors.Is(err, ErrCorrupt) {
		return
	}
	check(t, err)
	if at != n.log.End() {
		t.Fatalf("%v: plans end at %d, the history at %d", w, at, n.log.End())
	}
}

// TestExplainOfCaches: what is in the cache is not read again.
func TestExplainOfCaches(t *testing.T) {
	for seed := range uint64(8) {
		fsys := &watched{FS: disk.NewMem(seed).Mount()}
		s := mixed(t, fsys, seed)
		rng := rand.New(rand.NewPCG(seed, 7))
		for range 10 {
			w := world{seed, someFilters[rng.IntN(len(someFilters))], rng.Uint64N(uint64(len(s.all)))}
			f := filters(t, w.filters...)
			var read Amount
			for _, p := range s.explain(t, f, w.after, s.log.End()) {
				read.High += p.Read().High - p.Cached
				read.Low += p.Read().High - p.Cached
				if p.Kind == KindSegment { // its table goes when nobody uses it
					read.Low -= p.Tables
				}
			}
			read.Estimate = read.High
			within(t, w, "bytes that are not in the cache", read, fsys.read(func() { s.readTo(t, s.log, f, w.after, s.log.End(), 1000) }))
		}
	}
}

// TestStoresAreKnown: once a store's tables were read, whoever wants nothing of it does
// not read them again, whatever the cache has forgotten.
func TestStoresAreKnown(t *testing.T) {
	fsys := &watched{FS: disk.NewMem(1).Mount()}
	s := segmented(t, fsys, 4, 90, 100, 1)
	s.compact(t, 0, 4, 8, func(id uint32) int { return int(s.table.Partition(id)) % 8 })
	s.log.scans.Cache = scan.NewCache(1)
	f := filters(t, "x2/**", "a/3")
	sel := topic.NewSelection(s.table, f)
	tables := func(of func(f *file) bool) (n uint64) {
		for _, f := range s.log.view.Load().files {
			if of(f) {
				n += uint64(f.Trailer.Tables[format.BlockTable].Bytes + f.Trailer.Tables[format.ListTable].Bytes)
			}
		}
		return n
	}
	first := fsys.read(func() { s.readTo(t, s.log, f, 0, s.log.End(), 1000) })
	again := fsys.read(func() { s.readTo(t, s.log, f, 0, s.log.End(), 1000) })
	others := tables(func(f *file) bool {
		return !slices.ContainsFunc(f.Places().Topics, sel.Match)
	})
	if others == 0 || first != again+others {
		t.Errorf("%d bytes were read first, then %d; the tables of stores without a wanted topic have %d of %d", first, again, others, tables(func(*file) bool { return true }))
	}
	s.expect(t, 0, 1000, "x2/**", "a/3")
	s.publish("x2/y/z0", 10) // more of what is wanted, in memory
	s.log.Publish()
	s.expect(t, 0, 1000, "x2/**", "a/3")
}

// TestOnePartitionIsKnown: that holds too where all topics are of one partition, and so many
// that only the first levels of their names are remembered.
func TestOnePartitionIsKnown(t *testing.T) {
	const stores, topics = 4, 6000
	fsys := &watched{FS: disk.NewMem(1).Mount()}
	s := newStream(t, fsys)
	s.log.SetTarget(1)
	s.chapter = 8 << 10
	n := 0
	s.entry(topics, func() (string, int) { n++; return fmt.Sprintf("a/b/%d/%d", n%40, n), 10 })
	check(t, s.log.Cut())
	s.build(t)
	s.compact(t, 0, 1, stores, func(id uint32) int { return int(id+1) % 40 % stores })
	s.log.scans.Cache = scan.NewCache(1)
	f := filters(t, "a/b/7/**")
	read := func() uint64 { return fsys.read(func() { s.readTo(t, s.log, f, 0, s.log.End(), 1000) }) }
	first, again := read(), read()
	others := uint64(0)
	for i, f := range s.log.view.Load().files {
		if f.Places().Levels != 3 {
			t.Errorf("of store %d %d levels are known", i, f.Places().Levels)
		}
		if !slices.ContainsFunc(f.Places().Topics, func(id uint32) bool { return strings.HasPrefix(s.table.Name(id), "a/b/7/") }) {
			others += uint64(f.Trailer.Tables[format.BlockTable].Bytes + f.Trailer.Tables[format.ListTable].Bytes)
		}
	}
	if others == 0 || first != again+others {
		t.Errorf("%d bytes were read first, then %d; the tables of stores without what is wanted have %d", first, again, others)
	}
	s.expect(t, 0, 1000, "a/b/7/**")
}

// TestExplainUntil: who leaves a range in its middle reads no less and no more than
// within the bounds, unless a read that finds nothing goes on into the next range.
func TestExplainUntil(t *testing.T) {
	for seed := range uint64(8) {
		fsys := &watched{FS: disk.NewMem(seed).Mount()}
		s := mixed(t, fsys, seed)
		rng := rand.New(rand.NewPCG(seed, 8))
		for range 20 {
			w := world{seed, someFilters[rng.IntN(len(someFilters))], rng.Uint64N(uint64(len(s.all)))}
			f := filters(t, w.filters...)
			until := w.after + 1 + rng.Uint64N(uint64(len(s.all))-w.after)
			var read Amount
			plans := s.explain(t, f, w.after, until)
			for _, p := range plans {
				read = read.Plus(p.Read())
			}
			if end := plans[len(plans)-1]; end.First > until || end.Last < until {
				t.Fatalf("%v: the last plan is %d to %d, until %d", w, end.First, end.Last, until)
			}
			l := s.cold(t, fsys)
			l.scans.Window = 1 << (8 + rng.IntN(12))
			var at uint64
			n := fsys.read(func() { _, at = s.readTo(t, l, f, w.after, until, 1) })
			if at > plans[len(plans)-1].Last {
				for _, p := range s.explain(t, f, plans[len(plans)-1].Last, at) {
					read.High += p.Read().High
				}
			}
			within(t, w, "bytes", read, n)
		}
	}
}

// TestExplainReadsTables: nothing that an explanation reads is of a message, and once
// its budget is spent it reads no topic table, and is still within its bounds.
func TestExplainReadsTables(t *testing.T) {
	fsys := &watched{FS: disk.NewMem(1).Mount()}
	s := mixed(t, fsys, 1)
	tables := make(map[string][]format.TableRef)
	for _, f := range s.log.view.Load().files {
		tables[f.Path] = f.Trailer.Tables[:]
	}
	topics := 0
	fsys.told = func(name string, off int64) {
		switch i := slices.IndexFunc(tables[name], func(r format.TableRef) bool { return r.Off == off }); format.Table(i) {
		case format.BlockTable, format.ListTable:
		case format.TopicTable:
			topics++
		default:
			t.Errorf("%s is read at byte %d, its tables are %+v", name, off, tables[name])
		}
	}
	f := filters(t, "a/*/c2")
	s.explain(t, f, 0, s.log.End())
	if topics == 0 {
		t.Error("no topic table was read")
	}
	end := s.log.Manifest().End()
	r := s.log.NewReader(topic.NewSelection(s.table, f), 0)
	x := s.log.scans.NewExplainer(r.q)
	for n := 0; r.pos < end; n++ {
		if n == 2 {
			x.Left, topics = 0, 0
		}
		p, err := r.plan(x, end)
		check(t, err)
		r.pos = p.Last
		if n < 2 {
			s.expectVolume(t, world{1, f.Canonical(), 0}, f, p, s.log.Manifest())
		} else {
			s.expectVolume(t, world{1, f.Canonical(), 0}, f, p, Manifest{Files: []FileMeta{{First: 1, Last: end}}})
		}
	}
	if topics > 0 {
		t.Errorf("%d topic tables were read beyond the budget", topics)
	}
}

// TestExplainOfWhatIsNotThere: the errors are those of reading.
func TestExplainOfWhatIsNotThere(t *testing.T) {
	fsys := disk.NewMem(1)
	s := segmented(t, fsys.Mount(), 4, 90, 100, 1)
	files := s.log.Manifest().Files
	s.commit(t, Edit{Remove: []Hash{files[0].Hash}})
	all := filters(t, "**")
	explain := func() error {
		return s.log.Explain(topic.NewSelection(s.table, all), Floors{}, s.log.Oldest()-1, s.log.End(), func(Plan) error { return nil })
	}
	if err := s.log.Explain(topic.NewSelection(s.table, all), Floors{}, 0, s.log.End(), nil); !errors.Is(err, ErrExpired) {
		t.Errorf("before the oldest: %v", err)
	}
	check(t, explain())
	check(t, fsys.FlipBit("data/"+files[1].Name(), (files[1].Bytes-format.TrailerBytes)*8-1)) // of the time table: nobody looks
	check(t, explain())
	check(t, fsys.Lose("data/"+files[2].Name()))
	if err := explain(); !errors.Is(err, ErrNotHere) {
		t.Errorf("a file is lost: %v", err)
	}
	block := s.log.view.Load().files[2].Trailer.Tables[format.BlockTable].Off
	s.log = s.cold(t, fsys.Mount())
	check(t, fsys.FlipBit("data/"+files[3].Name(), block*8))
	err := s.log.Explain(topic.NewSelection(s.table, all), Floors{}, files[2].Last, s.log.End(), nil)
	if !errors.Is(err, ErrCorrupt) || len(s.warns) < 2 {
		t.Errorf("a table is damaged: %v; it was told of %v", err, s.warns)
	}
}
