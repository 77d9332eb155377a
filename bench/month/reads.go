package month

import (
	"cmp"
	"slices"

	"chorale/compactor"
	"chorale/segments/chapter"
)

// entry is a message that was taken.
type entry struct {
	topic int32 // index in names
	bytes int32
}

// stream is what was taken so far, and who reads it: everybody who wants one topic, or one
// subtree (every level that has levels below it).
type stream struct {
	entries []entry
	names   []string
	ids     map[string]int32 // of topics
	readers []reader
	known   map[reader]int32 // index in readers
	of      [][]int32        // readers of each topic: itself first
}

// reader is somebody who reads a topic, or a subtree.
type reader struct {
	name    string
	subtree bool
}

// reads are the bytes that a reader decodes, and those that it wants.
type reads struct{ read, wanted float64 }

func (s *stream) add(name string, bytes int64) {
	id, known := s.ids[name]
	if !known {
		id = int32(len(s.names))
		s.ids[name] = id
		s.names = append(s.names, name)
		readers := []int32{s.reader(reader{name, false})}
		for i := range name {
			if name[i] == '/' {
				readers = append(readers, s.reader(reader{name[:i], true}))
			}
		}
		s.of = append(s.of, readers)
	}
	s.entries = append(s.entries, entry{id, int32(bytes)})
}

func (s *stream) reader(r reader) int32 {
	id, known := s.known[r]
	if !known {
		id = int32(len(s.readers))
		s.known[r] = id
		s.readers = append(s.readers, r)
	}
	return id
}

// layout is a layer that is measured.
type layout struct {
	*stream
	store, rank []int32 // of topics: the store, the place in the order of the tree
	volumes     []int64 // of topics, in the open chapter
	open        []int32 // topics of the open chapter
	reads       []reads // by reader
	block       []int32 // topics that share a block
	marks       []int32 // by reader: the block that was counted last
	blocks      int32
}

// measure lays the messages from and up to, but without, to out as the stores of a split,
// in the blocks that package chapter makes, and sums what their readers decode.
func (s *stream) measure(from, to int, tree *compactor.Tree, split compactor.Split, chapterBytes uint32) []reads {
	l := layout{
		stream: s, store: make([]int32, len(s.names)), rank: make([]int32, len(s.names)), volumes: make([]int64, len(s.names)),
		reads: make([]reads, len(s.readers)), marks: make([]int32, len(s.readers)),
	}
	for i, v := range tree.Topics {
		id := s.ids[v.Topic]
		l.store[id], l.rank[id] = split.StoreOf[i], int32(i)
	}
	chapters := chapter.Cutter{Bytes: int(chapterBytes)}
	for _, e := range s.entries[from:to] {
		if chapters.Next(int(e.bytes)) {
			l.end()
		}
		if l.volumes[e.topic] == 0 {
			l.open = append(l.open, e.topic)
		}
		l.volumes[e.topic] += int64(e.bytes)
	}
	l.end()
	return l.reads
}

// end ends a chapter.
func (l *layout) end() {
	slices.SortFunc(l.open, func(a, b int32) int {
		return cmp.Or(cmp.Compare(l.store[a], l.store[b]), cmp.Compare(l.rank[a], l.rank[b]))
	})
	var shared chapter.Shared
	for i, id := range l.open {
		if i > 0 && l.store[id] != l.store[l.open[i-1]] {
			shared = chapter.Shared{}
		}
		if !shared.Next(l.names[id], int(l.volumes[id])) {
			l.endBlock()
		}
		l.block = append(l.block, id)
	}
	l.endBlock()
	for _, id := range l.open {
		l.volumes[id] = 0
	}
	l.open = l.open[:0]
}

// endBlock counts a block, or the blocks of a topic that has some of its own.
func (l *layout) endBlock() {
	l.blocks++
	total := 0.0
	for _, id := range l.block {
		total += float64(l.volumes[id])
	}
	for _, id := range l.block {
		for _, r := range l.of[id] {
			if l.reads[r].wanted += float64(l.volumes[id]); l.marks[r] != l.blocks {
				l.marks[r] = l.blocks
				l.reads[r].read += total
			}
		}
	}
	l.block = l.block[:0]
}
