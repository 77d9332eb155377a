package layer

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/segments/manifest"
	"chorale/topic"
)

// stream makes records over some topics.
func stream(n, payload int) (*topic.Table, []message.Record) {
	table := topic.NewTable()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	last := map[uint32]uint64{}
	var out []message.Record
	for seq := uint64(1); seq <= uint64(n); seq++ {
		id, _ := table.Intern(fmt.Appendf(nil, "a/b%d/c%d", rng.IntN(9), rng.IntN(30)))
		b := make([]byte, rng.IntN(payload))
		for i := range b {
			b[i] = byte(rng.IntN(40))
		}
		out = append(out, message.NewRecord(message.Draft{Payload: b}, id, seq, last[id], int64(seq/7)))
		last[id] = seq
	}
	return table, out
}

func options(fsys disk.FS, table *topic.Table, all []message.Record, stores, memory int) Options {
	return Options{
		FS: fsys, Dir: "data", First: 1, Last: uint64(len(all)), FirstTime: all[0].Time(), LastTime: all[len(all)-1].Time(),
		Level: 1, Chapter: 300 << 10, Stores: stores, StoreOf: func(id uint32) int { return int(id*31) % stores }, Name: table.Name,
		Claim: func(string) {}, SpoolMemory: memory,
	}
}

// build builds a layer and describes its files.
func build(o Options, all []message.Record, between func()) (metas []manifest.FileMeta, err error) {
	b := New(o)
	defer b.Abort()
	for _, r := range all {
		if err := b.Add(r); err != nil {
			return nil, err
		}
	}
	between()
	err = b.Finish(nil, func(m manifest.FileMeta, _ *format.File) error {
		metas = append(metas, m)
		return nil
	})
	return metas, err
}

// TestSpoolMakesNoDifference: in memory, in the file, or in both, the stores are the
// same; all are sound; of the spool nothing is left.
func TestSpoolMakesNoDifference(t *testing.T) {
	table, all := stream(9000, 900)
	var want []manifest.FileMeta
	for _, memory := range []int{0, lastChunk, 100 << 20} {
		m := disk.NewMem(1)
		if err := m.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		got, err := build(options(m.Mount(), table, all, 7, memory), all, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("with %d bytes of memory: %v, want %v", memory, got, want)
		}
		messages := uint64(0)
		for _, x := range got {
			f, err := m.Open("data/" + x.Name())
			if err != nil {
				t.Fatal(err)
			}
			if r := format.Examine(f, x.Bytes, x.Name()); r.Err() != nil || r.Hash != x.Hash.String() {
				t.Fatal(r.Findings)
			}
			messages += x.Messages
		}
		entries, err := m.List("data")
		if err != nil || len(entries) != len(got) || messages != uint64(len(all)) {
			t.Fatalf("%d files for %d stores of %d messages, %v", len(entries), len(got), messages, err)
		}
	}
}

// handles counts the files that are open.
type handles struct {
	disk.FS
	open, most int
}

type handle struct {
	disk.File
	h *handles
}

func (h *handles) count(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	h.open++
	h.most = max(h.most, h.open)
	return handle{f, h}, nil
}

func (h *handles) Create(name string) (disk.File, error) { return h.count(h.FS.Create(name)) }
func (h *handles) Open(name string) (disk.File, error)   { return h.count(h.FS.Open(name)) }

func (f handle) Close() error {
	f.h.open--
	return f.File.Close()
}

// TestThousandsOfStores need two files at a time.
func TestThousandsOfStores(t *testing.T) {
	table := topic.NewTable()
	var all []message.Record
	for seq := uint64(1); seq <= 6000; seq++ {
		id, _ := table.Intern(fmt.Appendf(nil, "a/t%d", seq%3000))
		all = append(all, message.NewRecord(message.Draft{Payload: make([]byte, 40)}, id, seq, max(seq, 3000)-3000, 1))
	}
	h := &handles{FS: disk.NewMem(1).Mount()}
	if err := h.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	o := options(h, table, all, 3000, 0)
	o.StoreOf = func(id uint32) int { return int(id) }
	got, err := build(o, all, func() {})
	if err != nil || len(got) != 3000 || h.most != 2 || h.open != 0 {
		t.Fatalf("%d stores, at most %d files open, in the end %d, %v", len(got), h.most, h.open, err)
	}
}

// TestRottenSpool: what the disk does not give back as it was does not come into a file.
func TestRottenSpool(t *testing.T) {
	table, all := stream(2000, 900)
	for _, trouble := range []string{"flip", "cut"} {
		m := disk.NewMem(1)
		if err := m.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		_, err := build(options(m.Mount(), table, all, 3, 0), all, func() {
			if trouble == "flip" {
				if err := m.Fault("on read *.spool.tmp flip bit 12345"); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err := m.Fault("on read *.spool.tmp fail EIO"); err != nil {
				t.Fatal(err)
			}
		})
		if err == nil || !strings.Contains(err.Error(), "spool") {
			t.Fatalf("%s: %v", trouble, err)
		}
	}
}

func TestDoneEndsTheWork(t *testing.T) {
	table, all := stream(500, 50)
	m := disk.NewMem(1)
	if err := m.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	b := New(options(m.Mount(), table, all, 5, 1<<20))
	for _, r := range all {
		if err := b.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	err := b.Finish(nil, func(manifest.FileMeta, *format.File) error {
		calls++
		return io.ErrClosedPipe
	})
	if !errors.Is(err, io.ErrClosedPipe) || calls != 1 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	b.Abort()
	b.Abort()
}

func TestAncestor(t *testing.T) {
	for want, names := range map[string][]string{
		"a/b/c": {"a/b/c"},
		"a/b":   {"a/b", "a/b/c", "a/b/d/e"},
		"a":     {"a/b", "a/bc"},
		"":      {"a/b", "ab/b"},
		"x/y":   {"x/y/a", "x/y/b/c", "x/y/z"},
	} {
		var v []format.TopicVolume
		for _, n := range names {
			v = append(v, format.TopicVolume{Name: n})
		}
		if got := ancestor(v); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
}

func TestWrongSeqIsABug(t *testing.T) {
	table, all := stream(3, 5)
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "seq 1") || !strings.Contains(p, "want 3") {
			t.Fatal(p)
		}
	}()
	b := New(options(disk.NewMem(1).Mount(), table, all, 1, 0))
	if err := b.Add(all[1]); err != nil { // the one before has gone
		t.Fatal(err)
	}
	_ = b.Add(all[0])
}
