package drops

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"chorale/retention"
	"chorale/segments"

	"pgregory.net/rapid"
)

// store is a file with the messages that it holds, which only its node knows.
type store struct {
	segments.FileMeta
	held map[string][]uint64 // seqs by topic
}

// left reports whether a message of it lies above all floors.
func (s store) left(floors []retention.Floor) bool {
	for name, seqs := range s.held {
		gone := uint64(0)
		for _, f := range floors {
			if above, subtree := strings.CutSuffix(f.Filter, "**"); f.Filter == name || subtree && strings.HasPrefix(name+"/", above) {
				gone = max(gone, f.Seq)
			}
		}
		if seqs[len(seqs)-1] >= gone {
			return true
		}
	}
	return false
}

var topics = []string{"a", "a/b", "a/b/c", "a/bc", "d/e", "d/f"}

// drawFiles makes ranges of up to 4 stores, or of a segment.
func drawFiles(t *rapid.T) (m segments.Manifest, stores []store) {
	hash := byte(0)
	first := uint64(1)
	for range rapid.IntRange(1, 3).Draw(t, "ranges") {
		last := first + rapid.Uint64Range(0, 11).Draw(t, "length")
		made := make([]store, rapid.IntRange(1, 4).Draw(t, "stores"))
		of := map[string]int{}
		for seq := first; seq <= last; seq++ {
			name := rapid.SampledFrom(topics).Draw(t, "topic")
			if _, known := of[name]; !known {
				of[name] = rapid.IntRange(0, len(made)-1).Draw(t, "store")
			}
			s := &made[of[name]]
			if s.held == nil {
				s.held = map[string][]uint64{}
			}
			s.held[name] = append(s.held[name], seq)
			s.Messages++
		}
		segment := rapid.IntRange(0, 3).Draw(t, "a segment") == 0
		for _, s := range made {
			if s.held == nil {
				continue
			}
			hash++
			s.Kind, s.First, s.Last, s.FirstTime, s.LastTime, s.Bytes = segments.KindStore, first, last, int64(first), int64(last), 1000
			s.Hash, s.Level, s.Topics, s.Ancestor = segments.Hash{hash}, 1, uint32(len(s.held)), ancestor(s.held)
			if segment {
				s.Kind, s.Level, s.Topics, s.Ancestor, s.Messages, s.held = segments.KindSegment, 0, 0, "", last-first+1, map[string][]uint64{"a": {last}}
			}
			m.Files, stores = append(m.Files, s.FileMeta), append(stores, s)
			if segment {
				break
			}
		}
		first = last + 1
	}
	order := func(a, b segments.FileMeta) int {
		return slices.IndexFunc(m.Files, func(f segments.FileMeta) bool { return f.Hash == a.Hash }) - slices.IndexFunc(m.Files, func(f segments.FileMeta) bool { return f.Hash == b.Hash })
	}
	sortFiles(m.Files)
	slices.SortFunc(stores, func(a, b store) int { return order(a.FileMeta, b.FileMeta) })
	return m, stores
}

// sortFiles is the order of a manifest.
func sortFiles(files []segments.FileMeta) {
	slices.SortFunc(files, func(a, b segments.FileMeta) int {
		if a.First != b.First {
			return int(a.First) - int(b.First)
		}
		return strings.Compare(a.Ancestor+string(a.Hash[:]), b.Ancestor+string(b.Hash[:]))
	})
}

func ancestor(held map[string][]uint64) string {
	var names []string
	for name := range held {
		names = append(names, name)
	}
	for a := names[0]; a != ""; a = a[:max(0, strings.LastIndexByte(a, '/'))] {
		if !slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name+"/", a+"/") }) {
			return a
		}
	}
	return ""
}

// TestDrops: of files of which nothing is left all go that do not leave a range without one and
// that no plan reads; where a drop is refused for what is left, something is. What stays is a
// manifest with the same ranges.
func TestDrops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, stores := drawFiles(t)
		var list []retention.Floor
		for range rapid.IntRange(0, 4).Draw(t, "floors") {
			list = append(list, retention.Floor{
				Filter: rapid.SampledFrom([]string{"a", "a/**", "a/b", "a/b/**", "d/**", "d/e", "q/**"}).Draw(t, "filter"),
				Seq:    rapid.Uint64Range(1, m.End()+1).Draw(t, "seq"),
			})
		}
		var d Drop
		var inputs []segments.Hash
		left, planned, staying := false, false, map[uint64]bool{}
		for _, s := range stores {
			if rapid.IntRange(0, 9).Draw(t, "planned") == 0 {
				inputs = append(inputs, s.Hash)
			}
			if s.left(list) && rapid.IntRange(0, 9).Draw(t, "by mistake") > 0 || rapid.Bool().Draw(t, "stays") {
				staying[s.First] = true
				continue
			}
			d.Files = append(d.Files, s.Hash)
			left, planned = left || s.left(list), planned || slices.Contains(inputs, s.Hash)
		}
		empty := slices.ContainsFunc(m.Files, func(f segments.FileMeta) bool { return !staying[f.First] })
		if len(d.Files) == 0 {
			return
		}
		e, err := d.Edit(m, retention.NewFloors(list), inputs)
		switch {
		case errors.Is(err, ErrLeft) && left, errors.Is(err, ErrPlanned) && planned, errors.Is(err, ErrFiles) && empty:
			return
		case err != nil || planned || empty:
			t.Fatalf("something is left %v, planned %v, a range would be without a file %v: %v", left, planned, empty, err)
		}
		next, err := m.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		if len(next.Files) != len(m.Files)-len(d.Files) || len(next.Ranges()) != len(m.Ranges()) || next.End() != m.End() || next.Oldest() != m.Oldest() {
			t.Fatalf("%v without %v is %v", m, d, next)
		}
		again, err := segments.DecodeManifest(next.Encode())
		if err != nil || !slices.Equal(again.Files, next.Files) {
			t.Fatalf("%v: %v", again, err)
		}
	})
}

// TestUnknownFiles: what is not there, stands twice or out of order is refused.
func TestUnknownFiles(t *testing.T) {
	m := segments.Manifest{Files: []segments.FileMeta{
		{Kind: segments.KindStore, First: 1, Last: 3, Messages: 1, Hash: segments.Hash{1}, Ancestor: "a"},
		{Kind: segments.KindStore, First: 1, Last: 3, Messages: 1, Hash: segments.Hash{2}, Ancestor: "b"},
		{Kind: segments.KindStore, First: 1, Last: 3, Messages: 1, Hash: segments.Hash{3}, Ancestor: "c"},
	}}
	floors := retention.NewFloors([]retention.Floor{{Filter: "a", Seq: 4}, {Filter: "b", Seq: 4}})
	for _, c := range []struct {
		files []segments.Hash
		want  error
	}{
		{[]segments.Hash{{1}, {2}}, nil},
		{[]segments.Hash{{2}, {1}}, ErrFiles},
		{[]segments.Hash{{1}, {1}}, ErrFiles},
		{[]segments.Hash{{9}}, ErrFiles},
		{[]segments.Hash{{1}, {9}}, ErrFiles},
		{[]segments.Hash{{3}}, ErrLeft},
	} {
		if _, err := (Drop{c.files}).Edit(m, floors, nil); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.files, err, c.want)
		}
	}
}

// FuzzDrop: what is accepted has one encoding.
func FuzzDrop(f *testing.F) {
	f.Add(Drop{[]segments.Hash{{1}, {2}}}.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := Decode(b); err == nil && !bytes.Equal(d.Append(nil), b) {
			t.Fatalf("%v is not %x", d, b)
		}
	})
}
