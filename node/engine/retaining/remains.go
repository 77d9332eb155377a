package retaining

import (
	"math"

	"chorale/node/engine/building"
	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"
)

// remains knows of which files something is left: of each it remembers one topic that has not
// gone, and looks into the file's table again only when that one has. It is the topic whose
// floor is farthest behind its last message, so of topics with the same floor the one that goes
// last: a file is looked into once, and once more for each floor that has let all of its topics
// go. Files to which no floor comes are not looked into at all. For one goroutine.
//
// Memory: some 64 bytes a file of the manifest.
type remains struct {
	// volumes is the topic table of a file, name that of a topic.
	volumes func(segments.Hash) ([]format.TopicVolume, error)
	name    func(id uint32) string
	left    map[segments.Hash]leftover
	// What the last look was at, if it came to an end.
	files  []segments.FileMeta
	floors *retention.Floors
	plan   uint64
}

// leftover is a topic of which a file still has a message.
type leftover struct {
	topic uint32
	last  uint64 // its last message in the file; stays for the last message of the range
}

// stays is the last message of a topic that no floor can take from the file.
const stays = math.MaxUint64

// looks is how many tables are read at a time, at most drops.MaxFiles.
const looks = 64

// gone lists files of which nothing is left, in the order of the manifest: of each range all but
// the one with its last message, and none that the plan with this index and these inputs reads.
// Files whose tables were not read yet are not among them; the next call goes on with these.
func (r *remains) gone(m segments.Manifest, floors *retention.Floors, plan uint64, inputs []segments.Hash) (gone []segments.Hash) {
	if r.floors == floors && r.plan == plan && sameFiles(r.files, m.Files) {
		return nil
	}
	left, budget, whole := make(map[segments.Hash]leftover, len(r.left)), looks, true
	first, last := building.Outputs(m, inputs)
	for _, x := range m.Ranges() {
		if len(x.Files) == 1 || x.First >= floors.Highest() {
			continue
		}
		for _, f := range x.Files {
			known, ok := r.left[f.Hash]
			if ok && floors.Of(r.name(known.topic)) > known.last {
				ok = false
			}
			planned := first <= x.First && x.Last <= last
			if !ok && !planned && floors.Reach(f.Ancestor) >= f.First+f.Messages {
				if budget--; budget < 0 {
					whole = false
					continue
				}
				volumes, err := r.volumes(f.Hash)
				if err != nil { // it is being fetched
					whole = false
					continue
				}
				if known, ok = leftoverOf(volumes, x.Last, floors); !ok {
					gone = append(gone, f.Hash)
				}
			}
			if ok {
				left[f.Hash] = known
			}
		}
	}
	r.left, r.floors, r.files, r.plan = left, floors, m.Files, plan
	if !whole || len(gone) > 0 {
		r.files = nil
	}
	return gone
}

func sameFiles(a, b []segments.FileMeta) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// leftoverOf is what is left of a file of a range that ends with a seq; false if nothing is.
func leftoverOf(volumes []format.TopicVolume, end uint64, floors *retention.Floors) (best leftover, ok bool) {
	ahead := uint64(0)
	for _, v := range volumes {
		floor := floors.Of(v.Name)
		switch {
		case v.Last == end:
			return leftover{v.ID, stays}, true
		case floor <= v.Last && v.Last-floor >= ahead:
			best, ahead, ok = leftover{v.ID, v.Last}, v.Last-floor, true
		}
	}
	return best, ok
}
