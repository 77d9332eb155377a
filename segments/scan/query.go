package scan

import (
	"cmp"
	"slices"
	"strings"

	"chorale/message"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/manifest"
	"chorale/topic"
)

// Query is what one reader wants, and what it has read to find it. For one goroutine.
type Query struct {
	BytesRead   int64 // from files
	BytesLooked int64 // of tables that were read, and of records that came from blocks
	// Floors say what has gone although files have it: an Explainer does not count it.
	Floors Floors
	sel    *topic.Selection
	topics *topic.Table

	seen       uint32          // partitions of the table when the next two were made
	partitions []bool          // by id: may hold a wanted topic
	tops       map[string]bool // first levels of these
}

// Floors say what has gone: of a topic everything before Of its id. The zero value is none.
type Floors struct {
	Of      func(id uint32) uint64
	Highest uint64 // of all topics, 0 for none
}

// Left reports whether a record is wanted and has not gone.
func (q *Query) Left(r message.Record) bool {
	return q.sel.Match(r.Topic()) && (r.Seq() >= q.Floors.Highest || r.Seq() >= q.Floors.Of(r.Topic()))
}

// NewQuery asks for the selected topics.
func (s *Shared) NewQuery(sel *topic.Selection) *Query { return &Query{sel: sel, topics: s.Topics} }

func (q *Query) readTable(bytes int64) {
	q.BytesRead += bytes
	q.BytesLooked += bytes
}

// Wants reports whether the topic with this id is wanted.
func (q *Query) Wants(id uint32) bool { return q.sel.Match(id) }

// spansOf lists the spans of blocks of a segment that may hold a wanted message, in the
// order of the file.
func (q *Query) spansOf(x *format.Index) []format.Span {
	if q.sel.All() {
		return []format.Span{{To: uint32(len(x.Blocks))}}
	}
	var out []format.Span
	for _, p := range q.sel.Partitions() {
		if s := x.Find(p); s.From < s.To {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b format.Span) int { return cmp.Compare(a.From, b.From) })
	return out
}

// blocksOf lists the blocks of a store that hold a wanted topic, ascending. Most topics
// are ruled out by their partition, without asking the filters.
func (q *Query) blocksOf(x *format.StoreIndex) []uint32 {
	if q.sel.All() {
		return x.All()
	}
	q.resolve()
	t := q.topics
	return x.Wanted(func(id uint32) bool {
		return q.touches(t.Partition(id)) && q.sel.Match(id)
	})
}

// Concerns reports whether a file may have a wanted topic, from what the manifest says.
func (q *Query) Concerns(m manifest.FileMeta) bool {
	if m.Ancestor == "" || q.sel.All() {
		return true
	}
	q.resolve()
	if !strings.Contains(m.Ancestor, "/") {
		return q.tops[m.Ancestor]
	}
	p, ok := q.topics.LookupPartition(topic.Partition(m.Ancestor))
	return !ok || q.touches(p)
}

// mayBeIn reports whether a file may have a wanted topic, from what is known of its
// tables.
func (q *Query) mayBeIn(f *data.File) bool {
	known := f.Places()
	if known == nil || q.sel.All() {
		return true
	}
	q.resolve()
	if !slices.ContainsFunc(known.Partitions, q.touches) {
		return false
	}
	return len(known.Topics) == 0 || slices.ContainsFunc(known.Topics, func(id uint32) bool {
		return q.touches(q.topics.Partition(id)) && q.sel.Reaches(id, known.Levels)
	})
}

// touches reports whether a partition may hold a wanted topic; resolve was called.
func (q *Query) touches(p uint32) bool { return int(p) < len(q.partitions) && q.partitions[p] }

// resolve brings partitions and tops up to date with the table.
func (q *Query) resolve() {
	t := q.topics
	n := t.Partitions()
	if q.tops != nil && n == q.seen {
		return
	}
	q.seen, q.partitions, q.tops = n, make([]bool, n), make(map[string]bool)
	for _, p := range q.sel.Partitions() {
		if p < n { // else it came in between, and so without a message in any file
			q.partitions[p] = true
			top, _, _ := strings.Cut(t.PartitionName(p), "/")
			q.tops[top] = true
		}
	}
}
