package format

import (
	"fmt"
	"io"
	"slices"

	"chorale/message"
)

// StoreWriter gathers the records of one store. Its blocks go out as they are
// complete, and come back when the file is written, so that thousands of stores can
// grow at a time. For one goroutine.
type StoreWriter struct {
	header Header // Messages counts
	packer *Packer
	topics map[uint32]*storeTopic
	open   StoreBlock // not yet packed
	before StoreBlock
	blocks uint32 // packed
	buf    []byte
	table  []byte
}

// storeTopic is what a store knows of a topic. The name comes last.
type storeTopic struct {
	volume TopicVolume
	list   list
}

// Packer compresses blocks; one serves any number of writers of one goroutine.
type Packer struct{ buf []byte }

// NewPacker makes a packer.
func NewPacker() *Packer { return new(Packer) }

// NewStoreWriter starts a store of the range from first to last.
func NewStoreWriter(p *Packer, first, last uint64, firstTime, lastTime int64) *StoreWriter {
	return &StoreWriter{
		header: Header{Kind: KindStore, First: first, Last: last, FirstTime: firstTime, LastTime: lastTime},
		packer: p, topics: make(map[uint32]*storeTopic), before: StoreBlock{LastTime: firstTime},
	}
}

// Add copies the next record. If that completes a block, its stored bytes are
// returned; they are valid until the packer's next use.
func (w *StoreWriter) Add(r message.Record) (stored []byte) {
	n := message.Stride(len(r))
	if w.open.Count > 0 && len(w.buf)+n > StoreBlockTarget {
		stored = w.End()
	}
	seq := uint32(r.Seq() - w.header.First)
	if w.open.Count == 0 {
		w.open.First, w.open.FirstTime = seq, r.Time()
	}
	w.open.Last, w.open.LastTime = seq, r.Time()
	w.open.Count++
	w.buf = message.AppendPadded(w.buf, r)
	w.header.Messages++

	t := w.topics[r.Topic()]
	if t == nil {
		t = &storeTopic{volume: TopicVolume{ID: r.Topic(), First: r.Seq()}, list: list{id: r.Topic()}}
		w.topics[r.Topic()] = t
	}
	t.volume.Messages, t.volume.Bytes, t.volume.Last = t.volume.Messages+1, t.volume.Bytes+uint64(n), r.Seq()
	t.list.add(w.blocks)
	return stored
}

// End completes the open block, if there is one, and returns its stored bytes, as
// Add does. Nothing can be added to the store afterwards but by Add.
func (w *StoreWriter) End() (stored []byte) {
	if w.open.Count == 0 {
		return nil
	}
	stored = packing.EncodeAll(w.buf, w.packer.buf[:0])
	w.packer.buf = stored
	w.open.Stored, w.open.Raw, w.open.Sum = uint32(len(stored)), uint32(len(w.buf)), message.Sum(stored)
	w.table = appendStoreBlock(w.table, w.open, w.before)
	w.before, w.open, w.buf = w.open, StoreBlock{}, w.buf[:0]
	if cap(w.buf) > 2*StoreBlockTarget { // of a large record
		w.buf = nil
	}
	w.blocks++
	return stored
}

// Write writes the file: blocks calls write with the stored bytes of each block in
// their order. End was called. It can be repeated. The volumes are those of the
// topics, in tree order.
func (w *StoreWriter) Write(to io.Writer, name func(id uint32) string, blocks func(write func(stored []byte)) error) (Summary, []TopicVolume, error) {
	if w.open.Count > 0 {
		panic(fmt.Sprintf("format: a block of %d records is open", w.open.Count))
	}
	volumes := make([]TopicVolume, 0, len(w.topics))
	all := make([]*list, 0, len(w.topics))
	for _, t := range w.topics {
		v := t.volume
		v.Name = name(v.ID)
		volumes = append(volumes, v)
		all = append(all, &t.list)
	}
	slices.SortFunc(volumes, func(a, b TopicVolume) int { return CompareTree(a.Name, b.Name) })
	e := newEnvelope(to, w.header)
	if err := blocks(e.write); err != nil {
		return Summary{}, nil, err
	}
	s, err := e.finish(volumes, w.table, appendLists(nil, all))
	return s, volumes, err
}
