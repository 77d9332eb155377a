package retaining

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"

	"pgregory.net/rapid"
)

var topics = []string{"a", "a/b", "a/b/c", "a/d", "e/f", "e/g"}

// world is a manifest, and what is in its files.
type world struct {
	m      segments.Manifest
	tables map[segments.Hash][]format.TopicVolume
	looked map[segments.Hash]int
	broken bool // tables cannot be read at the moment
}

func (w *world) volumes(h segments.Hash) ([]format.TopicVolume, error) {
	if w.broken {
		return nil, errors.New("it is not here")
	}
	w.looked[h]++
	return w.tables[h], nil
}

// drawWorld spreads messages over ranges of stores.
func drawWorld(t *rapid.T) *world {
	w := &world{tables: map[segments.Hash][]format.TopicVolume{}, looked: map[segments.Hash]int{}}
	first := uint64(1)
	for r := range rapid.IntRange(1, 4).Draw(t, "ranges") {
		last := first + rapid.Uint64Range(0, 15).Draw(t, "length")
		stores := rapid.IntRange(1, 4).Draw(t, "stores")
		of, files := rapid.SliceOfN(rapid.IntRange(0, stores-1), len(topics), len(topics)).Draw(t, "store of"), map[int]segments.FileMeta{}
		for seq := first; seq <= last; seq++ {
			id := rapid.IntRange(0, len(topics)-1).Draw(t, "topic")
			h := segments.Hash{byte(r), byte(of[id])}
			f := files[of[id]]
			f.Kind, f.First, f.Last, f.Hash, f.Messages = segments.KindStore, first, last, h, f.Messages+1
			files[of[id]] = f
			list := w.tables[h]
			i := slices.IndexFunc(list, func(v format.TopicVolume) bool { return v.ID == uint32(id) })
			if i < 0 {
				i, list = len(list), append(list, format.TopicVolume{ID: uint32(id), Name: topics[id], First: seq})
			}
			list[i].Last = seq
			w.tables[h] = list
		}
		for i := range stores {
			if f, ok := files[i]; ok {
				w.m.Files = append(w.m.Files, f)
			}
		}
		first = last + 1
	}
	return w
}

// gone is what remains should find: asked topic by topic.
func (w *world) gone(floors *retention.Floors) (out []segments.Hash) {
	for _, f := range w.m.Files {
		if !slices.ContainsFunc(w.tables[f.Hash], func(v format.TopicVolume) bool { return v.Last >= floors.Of(v.Name) || v.Last == f.Last }) {
			out = append(out, f.Hash)
		}
	}
	return out
}

// without is the manifest when some files are dropped.
func (w *world) without(gone []segments.Hash) {
	w.m = segments.Manifest{Files: slices.DeleteFunc(slices.Clone(w.m.Files), func(f segments.FileMeta) bool { return slices.Contains(gone, f.Hash) })}
}

// TestRemains: what is found is exactly what has gone, whether it is dropped at once or refused,
// and a file is looked into no more often than floors have come to it.
func TestRemains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, r := drawWorld(t), remains{name: func(id uint32) string { return topics[id] }}
		r.volumes = w.volumes
		var floors *retention.Floors
		filters, refused := map[string]bool{}, 0
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			filter := rapid.SampledFrom([]string{"a", "a/**", "a/b", "a/b/**", "e/**", "e/f", "q"}).Draw(t, "filter")
			filters[filter] = true
			floors = floors.With(retention.Floor{Filter: filter, Seq: rapid.Uint64Range(1, w.m.End()+1).Draw(t, "floor")})
			if w.broken = rapid.IntRange(0, 5).Draw(t, "broken") == 0; w.broken {
				if got := r.gone(w.m, floors, 0, nil); len(got) > 0 {
					t.Fatalf("%v has gone by tables that cannot be read", got)
				}
				w.broken = false
			}
			ranges := w.m.Ranges()
			x := ranges[rapid.IntRange(0, len(ranges)-1).Draw(t, "planned")]
			var inputs, spared []segments.Hash
			if rapid.Bool().Draw(t, "a plan") {
				for _, f := range x.Files {
					inputs = append(inputs, f.Hash)
				}
				spared = inputs
			}
			want := slices.DeleteFunc(w.gone(floors), func(h segments.Hash) bool { return slices.Contains(spared, h) })
			got := r.gone(w.m, floors, uint64(len(inputs)), inputs)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v has gone, want %v by %v", got, want, floors.List())
			}
			if rapid.IntRange(0, 3).Draw(t, "refused") > 0 {
				w.without(got)
			} else if len(got) > 0 {
				refused++
			}
			if again := r.gone(w.m, floors, uint64(len(inputs)), inputs); len(again) > 0 && refused == 0 {
				t.Fatalf("%v has gone once more", again)
			} else if len(again) > 0 {
				refused++
			}
		}
		for h, n := range w.looked {
			if n > 1+len(filters)+refused {
				t.Fatalf("the table of %v was read %d times, with %d floors and %d drops refused", h, n, len(filters), refused)
			}
		}
	})
}

// TestRemainsLooksAround: tables are read a few at a time, all of them in the end, and none
// again as long as nothing changes.
func TestRemainsLooksAround(t *testing.T) {
	w := &world{tables: map[segments.Hash][]format.TopicVolume{}, looked: map[segments.Hash]int{}}
	for i := range byte(200) {
		h := segments.Hash{i}
		w.m.Files = append(w.m.Files, segments.FileMeta{Kind: segments.KindStore, First: 1, Last: 1000, Messages: 1, Hash: h})
		w.tables[h] = []format.TopicVolume{{ID: uint32(i % 2), Name: topics[i%2], First: uint64(i) + 1, Last: uint64(i) + 1}}
	}
	r := remains{name: func(id uint32) string { return topics[id] }, volumes: w.volumes}
	floors := retention.NewFloors([]retention.Floor{{Filter: "a", Seq: 1001}})
	for n := 0; len(w.m.Files) > 100; n++ {
		gone := r.gone(w.m, floors, 0, nil)
		if len(gone) > looks || n > 200/looks {
			t.Fatalf("%d have gone in look %d", len(gone), n)
		}
		w.without(gone)
	}
	for range 3 {
		if gone := r.gone(w.m, floors, 0, nil); len(gone) > 0 {
			t.Fatal(gone)
		}
	}
	for h, n := range w.looked {
		if n != 1 {
			t.Errorf("the table of %v was read %d times", h, n)
		}
	}
}
