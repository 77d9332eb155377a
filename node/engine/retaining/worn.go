package retaining

import (
	"fmt"
	"hash/fnv"
	"time"

	"chorale/compactor"
	"chorale/raftfsm"
	"chorale/raftfsm/level"
	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"
)

// WornEvery is how often a leader asks at least, since floors rise while no file changes.
const WornEvery = time.Minute

// Worn finds ranges of which half has gone or more, though files have it still. A range is looked
// into when floors have risen within it since it was looked into last: a floor passes over a range
// in few steps, and none is left when it has passed. For one goroutine.
type Worn struct {
	state   *raftfsm.FSM
	history *segments.Log
	volumes func(segments.Hash) ([]format.TopicVolume, error)
	// looked is what was found of ranges that are not worn, by first seq.
	looked map[uint64]look
}

// look says by which files and floors a range was found not to be worn.
type look struct {
	files  int
	first  segments.Hash // of these
	floors uint64        // hash of those within the range
}

// NewWorn looks into the files of a history.
func NewWorn(state *raftfsm.FSM, l *segments.Log) *Worn {
	return &Worn{state: state, history: l, volumes: func(h segments.Hash) ([]format.TopicVolume, error) { return l.Volumes([]segments.Hash{h}) }}
}

// Next is the plan that is due: to merge ranges, else to rewrite the oldest worn one of those that
// are not merged any more. That the stream's retention takes ranges as a whole bounds how large
// they may become.
func (w *Worn) Next(s compactor.Settings) (compactor.Plan, bool) {
	m, v := w.history.Manifest(), w.state.View()
	rows := compactor.Ranges(m)
	s = s.Within(v.Retention.Bytes, v.Retention.Age)
	if p, due := compactor.Choose(rows, s); due || v.Level.Level < level.Trimming {
		return p, due
	}
	i, left, worn := w.find(m.Ranges(), w.state.Floors(), func(i int) bool { return rows[i].Level >= compactor.TopLevel })
	if !worn {
		return compactor.Plan{}, false
	}
	return compactor.Rewrite(rows, i, left, s)
}

// find is the oldest worn range of those that may be rewritten, and how many bytes of its files
// are left, about. It reads the tables of so many ranges as have looks files; the next call
// goes on.
func (w *Worn) find(ranges []segments.Range, floors *retention.Floors, may func(i int) bool) (worn int, left int64, ok bool) {
	known, read := make(map[uint64]look, len(w.looked)), 0
	for i, r := range ranges {
		if r.First >= floors.Highest() {
			break
		}
		before, had := w.looked[r.First]
		now := look{len(r.Files), r.Files[0].Hash, passing(r, floors)}
		if ok || !may(i) || had && before == now || read >= looks {
			if had {
				known[r.First] = before
			}
			continue
		}
		read += len(r.Files)
		if left, ok = w.left(r, floors); ok {
			worn = i
		} else if left >= 0 {
			known[r.First] = now
		}
	}
	w.looked = known
	return worn, left, ok
}

// passing tells where floors stand in a range.
func passing(r segments.Range, floors *retention.Floors) uint64 {
	h := fnv.New64a()
	for _, f := range floors.List() {
		if f.Seq > r.First { // a hash takes all that it is given
			_, _ = fmt.Fprintf(h, "%s %d\n", f.Filter, min(f.Seq, r.Last+1))
		}
	}
	return h.Sum64()
}

// left is how many bytes of the files of a range a rewriting leaves, about; false if it is not
// worn: if more than half may stay of its messages, or of their bytes. -1 if that cannot be
// known now.
func (w *Worn) left(r segments.Range, floors *retention.Floors) (files int64, worn bool) {
	var all, stays format.TopicVolume
	var bytes int64
	for _, f := range r.Files {
		volumes, err := w.volumes(f.Hash)
		if err != nil { // it is being fetched
			return -1, false
		}
		for _, v := range volumes {
			all.Messages, all.Bytes = all.Messages+v.Messages, all.Bytes+v.Bytes
			switch gone := floors.Of(v.Name) > v.Last; {
			case !gone:
				stays.Messages, stays.Bytes = stays.Messages+v.Messages, stays.Bytes+v.Bytes
			case v.Last == r.Last: // the last message of a range stays
				stays.Messages, stays.Bytes = stays.Messages+1, stays.Bytes+v.Bytes/v.Messages
			}
		}
		bytes += f.Bytes
	}
	left := int64(float64(bytes) * float64(stays.Bytes) / float64(max(all.Bytes, 1)))
	return left, stays.Messages <= all.Messages/2 && stays.Bytes <= all.Bytes/2
}
