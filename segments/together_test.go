package segments

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"chorale/disk"
	"chorale/topic"
)

// yielding is a file system each of whose reads lets others go first, so that readers meet at
// the blocks.
type yielding struct{ disk.FS }

func (y yielding) Open(name string) (disk.File, error) {
	f, err := y.FS.Open(name)
	return yieldingFile{f}, err
}

type yieldingFile struct{ disk.File }

func (f yieldingFile) ReadAt(b []byte, off int64) (int, error) {
	for range 20 {
		runtime.Gosched()
	}
	return f.File.ReadAt(b, off)
}

// TestReadersTogether: readers that meet at the blocks of a layer, and leave for later what
// others unpack, get what each wants, in order, whatever cache and windows hold. Where a
// store is damaged each has an error or what is right; and all of it once the store is back.
func TestReadersTogether(t *testing.T) {
	for seed := range uint64(2) {
		fsys := disk.NewMem(seed)
		s := segmented(t, fsys.Mount(), 6, 300, 200, seed)
		s.compact(t, 0, 6, 3, func(id uint32) int { return int(id) % 3 })
		m := s.log.Manifest()
		bad := m.Files[seed]
		sound := readFile(t, s.log, bad.Hash)
		for _, cached := range []int64{1, 3000, 64 << 20} {
			for _, window := range []int{1, 2000, 4 << 20} {
				l, err := Open(Options{FS: yielding{fsys.Mount()}, Dir: "data", Topics: s.table, CacheBytes: cached})
				check(t, err)
				check(t, l.Restore(m, m.End()+1))
				s.log, l.scans.Window = l, window
				check(t, fsys.FlipBit("data/"+bad.Name(), 70*8)) // in its first block
				s.together(t, true)
				if got := l.Missing(); !slices.Equal(got, []FileMeta{bad}) {
					t.Fatalf("missing %v, want %v", got, bad)
				}
				check(t, importFile(l, bad, sound))
				s.together(t, false)
			}
		}
	}
}

// together reads all of someFilters at once, each for two readers.
func (s *stream) together(t *testing.T, damaged bool) {
	var readers sync.WaitGroup
	for _, list := range slices.Concat(someFilters, someFilters) {
		f := filters(t, list...)
		readers.Go(func() {
			r := s.log.NewReader(topic.NewSelection(s.table, f), 0)
			defer r.Close()
			want := s.want(f, 0)
			for at := uint64(0); at < s.log.End(); {
				b, p, err := r.Read(nil, 3000)
				if got := s.seqs(t, b, p.Count); len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
					t.Errorf("%v: %v, want %v", list, head(got), head(want))
					return
				}
				want, at = want[p.Count:], p.Scanned
				if damaged && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotHere)) {
					return
				}
				if err != nil {
					t.Errorf("%v: %v", list, err)
					return
				}
			}
			if len(want) > 0 {
				t.Errorf("%v: %d are lacking", list, len(want))
			}
		})
	}
	readers.Wait()
}
