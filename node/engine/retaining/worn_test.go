package retaining

import (
	"fmt"
	"slices"
	"testing"

	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"

	"pgregory.net/rapid"
)

// rewrite is the world when a range was rewritten as one store, as a plan with these floors does
// it, and how many messages that wrote.
func (w *world) rewrite(first uint64, floors *retention.Floors, n int) (written uint64) {
	var files []segments.FileMeta
	var made segments.FileMeta
	var table []format.TopicVolume
	for _, f := range w.m.Files {
		if f.First != first {
			files = append(files, f)
			continue
		}
		made = f
		for _, v := range w.tables[f.Hash] {
			switch {
			case floors.Of(v.Name) <= v.Last: // of a topic that a floor is amid, some may go, or none
				table = append(table, v)
			case v.Last == f.Last:
				table = append(table, format.TopicVolume{ID: v.ID, Name: v.Name, First: v.Last, Last: v.Last, Messages: 1, Bytes: v.Bytes / v.Messages})
			}
		}
	}
	made.Hash = segments.Hash{byte(first), byte(n), 1}
	for _, v := range table {
		written += v.Messages
	}
	made.Messages = written
	w.tables[made.Hash] = table
	files = append(files, made)
	slices.SortFunc(files, func(a, b segments.FileMeta) int { return int(a.First) - int(b.First) })
	w.m = segments.Manifest{Files: files}
	return written
}

// half reports whether at most half stays of a range, topic by topic.
func (w *world) half(r segments.Range, floors *retention.Floors) bool {
	all, stays := uint64(0), uint64(0)
	for _, f := range r.Files {
		for _, v := range w.tables[f.Hash] {
			all += v.Messages
			if floors.Of(v.Name) <= v.Last {
				stays += v.Messages
			} else if v.Last == r.Last {
				stays++
			}
		}
	}
	return 2*stays <= all
}

// TestWorn: the oldest range that may be rewritten and of which half has gone is found, and none
// other; and however floors rise, rewriting all that is found writes no message more than once,
// on average.
func TestWorn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		total, written := uint64(0), uint64(0)
		for h, table := range w.tables { // bytes are as many for each message
			for i := range table {
				table[i].Messages = 1 + (table[i].Last-table[i].First)/2
				table[i].Bytes = 40 * table[i].Messages
				total += table[i].Messages
			}
			w.tables[h] = table
		}
		finder := Worn{volumes: w.volumes}
		var floors *retention.Floors
		steps := rapid.IntRange(1, 12).Draw(t, "steps")
		for n := range steps {
			floors = floors.With(retention.Floor{
				Filter: rapid.SampledFrom([]string{"a", "a/**", "a/b", "a/b/**", "e/**", "e/f", "q"}).Draw(t, "filter"),
				Seq:    rapid.Uint64Range(1, w.m.End()+1).Draw(t, "floor"),
			})
			never := rapid.Uint64Range(0, w.m.End()).Draw(t, "still to be merged")
			for turn := 0; ; turn++ {
				ranges := w.m.Ranges()
				may := func(i int) bool { return ranges[i].Last < never }
				want := slices.IndexFunc(ranges, func(r segments.Range) bool { return r.Last < never && w.half(r, floors) })
				got, left, ok := finder.find(ranges, floors, may)
				if ok != (want >= 0) || ok && (got != want || left < 0) {
					t.Fatalf("range %d is worn (%v, %d bytes are left), want %d by %v", got, ok, left, want, floors.List())
				}
				if !ok {
					break
				}
				written += w.rewrite(ranges[got].First, floors, n*100+turn)
			}
			clear(w.looked)
			if _, _, ok := finder.find(w.m.Ranges(), floors, func(i int) bool { return w.m.Ranges()[i].Last < never }); ok || len(w.looked) > 0 {
				t.Fatalf("without a change %d tables are read again, worn %v", len(w.looked), ok)
			}
		}
		if written > total {
			t.Fatalf("%d messages were written again, of %d", written, total)
		}
	})
}

// TestWornWaits: what cannot be known now is asked again, and few tables are read at a time.
func TestWornWaits(t *testing.T) {
	w := &world{tables: map[segments.Hash][]format.TopicVolume{}, looked: map[segments.Hash]int{}, broken: true}
	for i := range uint64(3 * looks) {
		h := segments.Hash{byte(i)}
		w.m.Files = append(w.m.Files, segments.FileMeta{Kind: segments.KindStore, First: i*10 + 1, Last: i*10 + 10, Messages: 10, Bytes: 100, Hash: h})
		table := []format.TopicVolume{{ID: 0, Name: "a", First: i*10 + 1, Last: i*10 + 2, Messages: 2, Bytes: 80}, {ID: 1, Name: "b", First: i*10 + 3, Last: i*10 + 10, Messages: 8, Bytes: 320}}
		w.tables[h] = table
	}
	finder := Worn{volumes: w.volumes}
	floors := retention.NewFloors([]retention.Floor{{Filter: "a", Seq: w.m.End()}})
	every := func(int) bool { return true }
	if _, _, ok := finder.find(w.m.Ranges(), floors, every); ok {
		t.Fatal("found by tables that cannot be read")
	}
	w.broken = false
	for n := 1; n <= 4; n++ {
		if _, _, ok := finder.find(w.m.Ranges(), floors, every); ok || len(w.looked) != min(n, 3)*looks {
			t.Fatalf("%d tables are read after %d looks, worn %v", len(w.looked), n, ok)
		}
	}
	floors = floors.With(retention.Floor{Filter: "b", Seq: 6})
	if i, left, ok := finder.find(w.m.Ranges(), floors, every); ok {
		t.Errorf("range %d is worn, %d bytes are left, and b may be there from 6 on", i, left)
	}
	floors = floors.With(retention.Floor{Filter: "b", Seq: 11})
	if i, left, ok := finder.find(w.m.Ranges(), floors, every); fmt.Sprint(i, left, ok) != "0 10 true" {
		t.Errorf("range %d, %d bytes are left, worn %v: want the first, of which the last message stays", i, left, ok)
	}
	for h, n := range w.looked {
		if want := 1; h != (segments.Hash{}) && n != want {
			t.Errorf("the table of %v was read %d times", h, n)
		}
	}
}
