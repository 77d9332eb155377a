// Package chapter lays out a piece of a store: records of many topics, which come in the
// order of the stream, become blocks of few topics each.
package chapter

import (
	"slices"

	"chorale/message"
	"chorale/topic"
)

// BlockBytes bounds the records of a block of more than one: what reading one message of
// a small topic costs, against how well blocks compress.
const BlockBytes = 64 << 10

const (
	// aloneBytes is of how many bytes on, within a chapter, a topic shares no block: what
	// one more block costs, in time and compressed less, against what a reader decodes in
	// vain.
	aloneBytes = 8 << 10
	// apartBytes is of how many bytes on a shared block ends between two topics that have
	// no level in common; with each level that they have, twice as many are needed.
	apartBytes = 2 << 10
)

// Cutter says where chapters end.
type Cutter struct {
	Bytes  int // that the records of a chapter of more than one may fill
	filled int
}

// Next takes the next record, of so many bytes with padding, and reports whether it
// begins another chapter than the record before it.
func (c *Cutter) Next(stride int) bool {
	c.filled += stride
	if c.filled <= c.Bytes || c.filled == stride {
		return false
	}
	c.filled = stride
	return true
}

// Chapter gathers records, and lays them out. With Mixed alone it is empty. For one
// goroutine.
type Chapter struct {
	// Mixed lets all topics share blocks.
	Mixed bool

	records []byte           // padded, in the order of the stream
	topics  map[uint32]int32 // index in groups
	groups  []group
	of      []int32 // group of each record
}

// Scratch is memory that the chapters of one goroutine share.
type Scratch struct{ sorted []byte }

// group is the records of one topic, which may go to the blocks of another one.
type group struct {
	topic uint32
	name  string // while it is laid out
	bytes int
	head  int32 // the group whose blocks these records go to
	at    int   // of a head: where its next record goes
}

// Add copies the next record.
func (c *Chapter) Add(r message.Record) {
	i, known := c.topics[r.Topic()]
	if !known {
		if c.topics == nil {
			c.topics = make(map[uint32]int32)
		}
		i = int32(len(c.groups))
		c.topics[r.Topic()] = i
		c.groups = append(c.groups, group{topic: r.Topic()})
	}
	c.groups[i].bytes += message.Stride(len(r))
	c.of = append(c.of, i)
	c.records = message.AppendPadded(c.records, r)
}

// End gives put the records of each block, in the order of the file, and leaves the
// chapter empty. The bytes are put's until it returns; its error ends the work.
func (c *Chapter) End(s *Scratch, name func(topic uint32) string, put func(records []byte) error) error {
	defer c.clear()
	for i := range c.groups {
		c.groups[i].name = name(c.groups[i].topic)
	}
	heads := c.share()
	s.sorted = c.sort(heads, s.sorted)
	from := 0
	for _, h := range heads {
		to := c.groups[h].at
		if err := cut(s.sorted[from:to], put); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// share decides which topics share blocks, and lists the first of those that do, in the
// order of the tree.
func (c *Chapter) share() (heads []int32) {
	order := make([]int32, len(c.groups))
	for i := range order {
		order[i] = int32(i)
	}
	if c.Mixed {
		return order[:min(1, len(order))] // which is the head of all
	}
	slices.SortFunc(order, func(a, b int32) int { return topic.Compare(c.groups[a].name, c.groups[b].name) })
	var shared Shared
	for _, i := range order {
		g := &c.groups[i]
		if !shared.Next(g.name, g.bytes) {
			heads = append(heads, i)
		}
		g.head = heads[len(heads)-1]
	}
	return heads
}

// Shared says which topics of a store's chapter share blocks.
type Shared struct {
	name        string // of the topic before
	last, bytes int    // its own, and of those that it shares with
}

// Next takes the next topic in the order of the tree, and its bytes, and reports whether it
// shares with the one before: as long as the block does not become too large, none of them
// is large, and a reader of a subtree meets few topics from beside it.
func (s *Shared) Next(name string, bytes int) bool {
	with := s.bytes > 0 && s.last < aloneBytes && bytes < aloneBytes && s.bytes+bytes <= BlockBytes &&
		s.bytes < apartBytes<<min(commonLevels(s.name, name), maxApartShift)
	if !with {
		s.bytes = 0
	}
	s.name, s.last = name, bytes
	s.bytes += bytes
	return with
}

// maxApartShift is where the bound of a block comes first.
const maxApartShift = 5

// commonLevels counts the levels that two names begin with.
func commonLevels(a, b string) (n int) {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		if a[i] == '/' {
			n++
		}
		i++
	}
	if i == len(a) && i < len(b) && b[i] == '/' {
		n++
	}
	return n
}

// sort puts the records where their groups want them: within each in the order of the
// stream.
func (c *Chapter) sort(heads []int32, to []byte) []byte {
	for i := range c.groups {
		c.groups[c.groups[i].head].at += c.groups[i].bytes
	}
	end := 0
	for _, h := range heads {
		c.groups[h].at, end = end, end+c.groups[h].at
	}
	to = slices.Grow(to[:0], end)[:end]
	rest := c.records
	for _, i := range c.of {
		h := &c.groups[c.groups[i].head]
		n := message.Stride(message.Record(rest).Size())
		h.at += copy(to[h.at:], rest[:n])
		rest = rest[n:]
	}
	return to
}

// cut ends a block before the record that would make it too large.
func cut(records []byte, put func(records []byte) error) error {
	for len(records) > 0 {
		n := message.Stride(message.Record(records).Size())
		for n < len(records) {
			next := message.Stride(message.Record(records[n:]).Size())
			if n+next > BlockBytes {
				break
			}
			n += next
		}
		if err := put(records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// keptBytes is how much memory of records a chapter keeps when it is empty.
const keptBytes = 2 * BlockBytes

func (c *Chapter) clear() {
	clear(c.topics)
	c.groups, c.of, c.records = c.groups[:0], c.of[:0], c.records[:0]
	if cap(c.records) > keptBytes {
		c.groups, c.of, c.records = nil, nil, nil
	}
}
