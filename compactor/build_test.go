package compactor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments"
	"chorale/topic"

	"pgregory.net/rapid"
)

// tester is what testing.TB and rapid.T have in common, as far as needed.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// history is a node's history on a disk of its own, beside a slice of all messages.
type history struct {
	t      tester
	disk   *disk.Mem
	topics *topic.Table
	log    *segments.Log
	all    []message.Record
	last   map[uint32]uint64
	warned []error
}

func newHistory(t tester, seed uint64) *history {
	h := &history{t: t, disk: disk.NewMem(seed), topics: topic.NewTable(), last: make(map[uint32]uint64)}
	h.open()
	return h
}

func (h *history) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) open() {
	h.t.Helper()
	var err error
	h.log, err = segments.Open(segments.Options{
		FS: h.disk.Mount(), Dir: "data", Topics: h.topics, PendingStretches: 2,
		Warn: func(err error) { h.warned = append(h.warned, err) },
	})
	h.check(err)
}

// restart loses the power: what the manifest names and what is durable stays. All
// messages must be in files.
func (h *history) restart() {
	h.t.Helper()
	m := h.log.Manifest()
	h.disk.Crash()
	h.open()
	h.check(h.log.Restore(m, m.End()+1))
}

// segment appends messages and makes a file of them.
func (h *history) segment(rng *rand.Rand, messages int) {
	h.t.Helper()
	for range messages {
		seq := uint64(len(h.all) + 1)
		id, _ := h.topics.Intern(fmt.Appendf(nil, "p%d/t%d", rng.IntN(3), rng.IntN(1+rng.IntN(30))))
		payload := make([]byte, rng.IntN(1+rng.IntN(400)))
		for i := range payload {
			payload[i] = byte(rng.IntN(4))
		}
		r := message.NewRecord(message.Draft{Payload: payload}, id, seq, h.last[id], int64(seq/3))
		h.last[id] = seq
		h.all = append(h.all, r)
		h.log.Append(h.topics.Partition(id), r)
	}
	h.log.Publish()
	h.check(h.log.Cut())
	for more := true; more; {
		var err error
		more, err = h.log.BuildOne()
		h.check(err)
	}
	h.install(segments.Edit{Add: h.log.Proposals()})
}

func (h *history) install(e segments.Edit) {
	h.t.Helper()
	refused, mismatch := h.log.Install(e)
	h.check(refused)
	h.check(mismatch)
}

// read is all that a filter selects, from the history and from the slice.
func (h *history) read(filter string, after uint64) (got, want []uint64) {
	h.t.Helper()
	filters, err := topic.ParseFilters(filter)
	h.check(err)
	r := h.log.NewReader(topic.NewSelection(h.topics, filters), after)
	defer r.Close()
	for at := after; at < h.log.End(); {
		b, p, err := r.Read(nil, 4<<10)
		h.check(err)
		at = p.Scanned
		for len(b) > 0 {
			var rec message.Record
			rec, b, err = message.Split(b)
			h.check(err)
			if seq := rec.Seq(); seq > uint64(len(h.all)) || !bytes.Equal(rec, h.all[seq-1]) {
				h.t.Fatalf("record %d is another one", seq)
			}
			got = append(got, rec.Seq())
		}
	}
	for _, r := range h.all[min(after, uint64(len(h.all))):] {
		if filters.Match(h.topics.Name(r.Topic())) {
			want = append(want, r.Seq())
		}
	}
	return got, want
}

// same holds the history against the slice.
func (h *history) same() {
	h.t.Helper()
	for _, filter := range []string{"**", "p1/**", "p0/t0", "p2/t7", "*/t1", "none"} {
		for _, after := range []uint64{h.log.Oldest() - 1, h.log.End() / 2, h.log.End() - min(3, h.log.End())} {
			if after+1 < h.log.Oldest() {
				continue
			}
			if got, want := h.read(filter, after); !slices.Equal(got, want) {
				h.t.Fatalf("%s behind %d: read %v, want %v", filter, after, got, want)
			}
		}
	}
}

// plan is of ranges [from, from+n) of the manifest.
func (h *history) plan(from, n int, stores uint32) Plan {
	p := Plan{Stores: stores}
	for _, r := range Ranges(h.log.Manifest())[from : from+n] {
		p.Inputs = append(p.Inputs, r.Files...)
	}
	return p
}

var errInterrupted = errors.New("interrupted")

// build builds a plan in one go, or is interrupted after so many bytes first, by an
// error or by a loss of power.
func (h *history) build(p Plan, interruptions ...int64) []segments.FileMeta {
	h.t.Helper()
	for i, left := range interruptions {
		_, err := Build(context.Background(), h.log, p, nil, func(_ context.Context, bytes int64) error {
			if left -= bytes; left < 0 {
				return errInterrupted
			}
			return nil
		})
		if err != nil && !errors.Is(err, errInterrupted) {
			h.t.Fatal(err)
		}
		if i%2 == 0 {
			h.restart()
		}
	}
	files, err := Build(context.Background(), h.log, p, nil, func(context.Context, int64) error { return nil })
	h.check(err)
	return files
}

// folder is all data files by name.
func (h *history) folder() map[string]string {
	h.t.Helper()
	list, err := h.disk.List("data")
	h.check(err)
	out := make(map[string]string)
	for _, f := range list {
		b, err := h.disk.ReadFile("data/" + f.Name())
		h.check(err)
		out[f.Name()] = string(b)
	}
	return out
}

// A plan gives the same bytes on every node, however often the build was interrupted,
// and what is read does not change.
func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rounds := rapid.IntRange(1, 4).Draw(t, "plans")
		one, two := newHistory(t, 1), newHistory(t, 2)
		for _, h := range []*history{one, two} {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 1 + rng.IntN(6) {
				h.segment(rng, 1+rng.IntN(150))
			}
		}
		for range rounds {
			ranges := len(one.log.Manifest().Ranges())
			from := rapid.IntRange(0, ranges-1).Draw(t, "from")
			n := rapid.IntRange(1, ranges-from).Draw(t, "ranges")
			p := one.plan(from, n, rapid.Uint32Range(1, 12).Draw(t, "stores"))
			breaks := rapid.SliceOfN(rapid.Int64Range(0, 60_000), 0, 3).Draw(t, "interruptions")
			added := one.build(p)
			if other := two.build(p, breaks...); !slices.Equal(added, other) {
				t.Fatalf("the plan gives %v here, %v there", added, other)
			}
			if len(added) > int(p.Stores) {
				t.Fatalf("%d stores, at most %d were planned", len(added), p.Stores)
			}
			one.same()
			for _, h := range []*history{one, two} {
				h.install(segments.Edit{Remove: p.Inputs, Add: added})
				h.same()
				_, err := h.log.BuildOne() // lets go of the replaced files
				h.check(err)
				h.check(h.log.Tidy(0, 0))
				if missing := h.log.Missing(); len(missing) > 0 {
					t.Fatalf("missing: %v", missing)
				}
			}
			files := one.folder()
			if len(files) != len(one.log.Manifest().Files) {
				t.Fatalf("%d files in the folder, %d in the manifest", len(files), len(one.log.Manifest().Files))
			}
			for name, want := range two.folder() {
				if files[name] != want {
					t.Fatalf("%s differs", name)
				}
			}
		}
	})
}

// The topics share stores as the split says.
func TestBuildSplits(t *testing.T) {
	h := newHistory(t, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		h.segment(rng, 200)
	}
	p := h.plan(0, 3, 5)
	all, err := h.log.Volumes(p.Inputs)
	h.check(err)
	stores, storeOf := assign(all, 5)
	h.install(segments.Edit{Remove: p.Inputs, Add: h.build(p)})
	files := h.log.Manifest().Files
	if stores != 5 || len(files) != stores {
		t.Fatalf("%d stores of the split, %d files", stores, len(files))
	}
	topics := 0
	for _, f := range files {
		volumes, err := h.log.Volumes([]segments.Hash{f.Hash})
		h.check(err)
		topics += len(volumes)
		for _, v := range volumes {
			if storeOf(v.ID) != storeOf(volumes[0].ID) {
				t.Errorf("%s lies with %s", v.Name, volumes[0].Name)
			}
		}
	}
	if topics != len(all) {
		t.Errorf("%d topics in stores, %d before", topics, len(all))
	}
}

// A plan whose inputs are not in the manifest is impossible, at once.
func TestBuildImpossible(t *testing.T) {
	h := newHistory(t, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		h.segment(rng, 20)
	}
	whole := h.plan(0, 3, 2)
	for name, p := range map[string]Plan{
		"no inputs":      {Stores: 1},
		"no stores":      {Inputs: whole.Inputs},
		"unknown":        {Inputs: []segments.Hash{{1}}, Stores: 1},
		"not in a row":   {Inputs: []segments.Hash{whole.Inputs[0], whole.Inputs[2]}, Stores: 1},
		"beyond the end": {Inputs: append(whole.Inputs[2:3:3], segments.Hash{1}), Stores: 1},
	} {
		if _, err := Build(context.Background(), h.log, p, nil, nil); !errors.Is(err, ErrImpossible) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was rewritten as often as may be says so, whatever the levels of the inputs.
func TestLevels(t *testing.T) {
	h := newHistory(t, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	s := Settings{FanOut: 2, StoreBytes: 1 << 10, MaxStores: 3, MaxFiles: 100}
	for range 16 {
		h.segment(rng, 30)
		for {
			p, due := Choose(Ranges(h.log.Manifest()), s)
			if !due {
				break
			}
			h.install(segments.Edit{Remove: p.Inputs, Add: h.build(p)})
		}
	}
	for i, r := range Ranges(h.log.Manifest()) {
		if r.Level != TopLevel || r.Messages != 240 {
			t.Errorf("range %d: level %d, %d messages", i, r.Level, r.Messages)
		}
	}
	h.same()
}
