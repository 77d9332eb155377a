package format

import (
	"fmt"
	"io"
	"math"
	"slices"

	"chorale/message"
	"chorale/segments/chapter"
	"chorale/topic"
)

// StoreWriter gathers the records of one store. Its blocks go out as they are
// complete, and come back when the file is written, so that thousands of stores can
// grow at a time. For one goroutine.
type StoreWriter struct {
	o           StoreOptions
	header      Header // Messages counts
	chapter     chapter.Chapter
	cutter      chapter.Cutter // of version 1
	topics      map[uint32]*storeTopic
	before, end chapterEnd // of the chapter before, of the blocks so far
	table       []byte
}

// StoreOptions say what a store is of.
type StoreOptions struct {
	First, Last         uint64 // of the range
	FirstTime, LastTime int64
	Chapter             uint32 // bytes of a chapter; 0 for version 1
	Name                func(topic uint32) string
	Packer              *Packer
	// Keep takes the stored bytes of the next block. They are its own until it returns;
	// its error comes back from Add and End, and ends the work.
	Keep func(stored []byte) error
}

// storeTopic is what a store knows of a topic. The name comes last.
type storeTopic struct {
	volume TopicVolume
	list   list
}

// Packer is the memory in which chapters are laid out and compressed; one serves any
// number of writers of one goroutine.
type Packer struct {
	scratch chapter.Scratch
	buf     []byte
}

// NewPacker makes a packer.
func NewPacker() *Packer { return new(Packer) }

// NewStoreWriter starts a store.
func NewStoreWriter(o StoreOptions) *StoreWriter {
	h := Header{Kind: KindStore, First: o.First, Last: o.Last, FirstTime: o.FirstTime, LastTime: o.LastTime, Chapter: o.Chapter}
	w := &StoreWriter{o: o, header: h, topics: make(map[uint32]*storeTopic), before: startOf(h), end: startOf(h)}
	if w.cutter.Bytes = math.MaxInt; o.Chapter == 0 {
		w.cutter.Bytes, w.chapter.Mixed = h.cut(), true
	}
	return w
}

// Add copies the next record. Where the chapters of the layer end, all writers of it are
// told so by End.
func (w *StoreWriter) Add(r message.Record) error {
	n := message.Stride(len(r))
	if w.cutter.Next(n) {
		if err := w.End(); err != nil {
			return err
		}
	}
	w.chapter.Add(r)
	w.header.Messages++
	t := w.topics[r.Topic()]
	if t == nil {
		t = &storeTopic{volume: TopicVolume{ID: r.Topic(), First: r.Seq()}, list: list{id: r.Topic()}}
		w.topics[r.Topic()] = t
	}
	t.volume.Messages, t.volume.Bytes, t.volume.Last = t.volume.Messages+1, t.volume.Bytes+uint64(n), r.Seq()
	return nil
}

// End completes the open chapter. It is called where the chapters of the layer end
// (Chapters), and behind the last record.
func (w *StoreWriter) End() error {
	w.before = w.end
	return w.chapter.End(&w.o.Packer.scratch, w.o.Name, w.block)
}

// block completes a block of the chapter.
func (w *StoreWriter) block(records []byte) error {
	first := message.Record(records)
	x := StoreBlock{Raw: uint32(len(records)), First: w.relative(first), FirstTime: first.Time(), Begins: w.end.blocks == w.before.blocks}
	for rest := records; len(rest) > 0; x.Count++ {
		r := message.Record(rest)
		x.Last, x.LastTime = w.relative(r), r.Time()
		w.topics[r.Topic()].list.add(uint32(w.end.blocks))
		rest = rest[message.Stride(r.Size()):]
	}
	stored := packing.EncodeAll(records, w.o.Packer.buf[:0])
	w.o.Packer.buf = stored
	x.Stored, x.Sum = uint32(len(stored)), message.Sum(stored)
	w.table = appendStoreBlock(w.table, w.header, x, w.before)
	w.end.add(x)
	return w.o.Keep(stored)
}

func (w *StoreWriter) relative(r message.Record) uint32 { return uint32(r.Seq() - w.header.First) }

// Write writes the file: blocks calls write with the stored bytes of each block in
// their order. End was called. It can be repeated. The volumes are those of the
// topics, in tree order.
func (w *StoreWriter) Write(to io.Writer, blocks func(write func(stored []byte)) error) (Summary, []TopicVolume, error) {
	if w.end.all != w.header.Messages {
		panic(fmt.Sprintf("format: blocks of %d records of %d", w.end.all, w.header.Messages))
	}
	volumes := make([]TopicVolume, 0, len(w.topics))
	all := make([]*list, 0, len(w.topics))
	for _, t := range w.topics {
		v := t.volume
		v.Name = w.o.Name(v.ID)
		volumes = append(volumes, v)
		all = append(all, &t.list)
	}
	slices.SortFunc(volumes, func(a, b TopicVolume) int { return topic.Compare(a.Name, b.Name) })
	e := newEnvelope(to, w.header)
	if err := blocks(e.write); err != nil {
		return Summary{}, nil, err
	}
	s, err := e.finish(volumes, w.table, appendLists(nil, all))
	return s, volumes, err
}
