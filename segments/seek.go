package segments

import (
	"errors"
	"slices"

	"chorale/segments/data"
)

// SeekTime returns the seq behind which the messages of time t or later lie: the
// newest seq if there is none yet.
func (l *Log) SeekTime(t int64) (after uint64, err error) {
	for {
		end, v := l.End(), l.view.Load()
		i, _ := slices.BinarySearchFunc(v.manifest.Files, t, func(m FileMeta, t int64) int {
			if m.LastTime < t {
				return -1
			}
			return 1
		})
		if i == len(v.files) || v.inMemory(v.manifest.Files[i]) {
			return v.seekTime(t, end), nil
		}
		m := v.manifest.Files[i]
		if t <= m.FirstTime {
			return m.First - 1, nil
		}
		x, files := span{first: m.First, last: m.Last}, v.files[i:i+v.manifest.Layer(i)]
		if j := slices.Index(files, nil); j >= 0 {
			var ok bool
			if x, ok = v.keptOf(m.First, t); !ok {
				return 0, &MissingError{Meta: v.manifest.Files[i+j], Position: m.First}
			}
			files = x.files
		}
		after, err = l.seekTimeIn(x, files, t)
		if !errors.Is(err, data.ErrGone) {
			return after, err
		}
	}
}

// keptOf returns the first of the replaced ranges from seq on that ends at time t or
// later, if they are without a gap up to there.
func (v *view) keptOf(seq uint64, t int64) (span, bool) {
	for {
		x, ok := v.keptAt(seq)
		if !ok || x.files[0].Meta.LastTime >= t {
			return x, ok
		}
		seq = x.last + 1
	}
}

// seekTime searches the stretches in memory.
func (v *view) seekTime(t int64, end uint64) uint64 {
	for i, s := range v.stretches {
		last := end
		if i+1 < len(v.stretches) {
			last = min(end, v.stretches[i+1].First()-1)
		}
		if s.First() > end {
			break
		}
		if after := s.SeekTime(t, last); after < last {
			return after
		}
	}
	return end
}

// seekTimeIn searches the files of a range, which has messages of time t or later.
func (l *Log) seekTimeIn(x span, files []*file, t int64) (uint64, error) {
	return l.scans.SeekTime(x.first, x.last, files, t)
}
