package segments

import (
	"cmp"
	"slices"
	"strings"

	"chorale/segments/format"
	"chorale/topic"
)

// spansOf lists the spans of blocks of a segment that may hold a wanted message, in the
// order of the file.
func (r *Reader) spansOf(x *format.Index) []format.Span {
	if r.sel.All() {
		return []format.Span{{To: uint32(len(x.Blocks))}}
	}
	var out []format.Span
	for _, p := range r.sel.Partitions() {
		if s := x.Find(p); s.From < s.To {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b format.Span) int { return cmp.Compare(a.From, b.From) })
	return out
}

// wantedOf lists the blocks of a store that hold a wanted topic, ascending. Most topics
// are ruled out by their partition, without asking the filters.
func (r *Reader) wantedOf(x *format.StoreIndex) []uint32 {
	if r.sel.All() {
		return x.All()
	}
	r.resolve()
	t := r.log.o.Topics
	return x.Wanted(func(id uint32) bool {
		p := t.Partition(id)
		return int(p) < len(r.partitions) && r.partitions[p] && r.sel.Match(id)
	})
}

// concerns reports whether a file may have a wanted topic, from what the manifest says.
func (r *Reader) concerns(m FileMeta) bool {
	if m.Ancestor == "" || r.sel.All() {
		return true
	}
	r.resolve()
	if !strings.Contains(m.Ancestor, "/") {
		return r.tops[m.Ancestor]
	}
	p, ok := r.log.o.Topics.LookupPartition(topic.Partition(m.Ancestor))
	return !ok || int(p) < len(r.partitions) && r.partitions[p]
}

// resolve brings partitions and tops up to date with the table.
func (r *Reader) resolve() {
	t := r.log.o.Topics
	n := t.Partitions()
	if r.tops != nil && n == r.seen {
		return
	}
	r.seen, r.partitions, r.tops = n, make([]bool, n), make(map[string]bool)
	for _, p := range r.sel.Partitions() {
		if p < n { // else it came in between, and so without a message in any file
			r.partitions[p] = true
			top, _, _ := strings.Cut(t.PartitionName(p), "/")
			r.tops[top] = true
		}
	}
}
