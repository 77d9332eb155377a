// Package rebuild writes data files again, from the records of their range.
package rebuild

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"chorale/message"
	"chorale/segments/arena"
	"chorale/segments/chapter"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/manifest"
	"chorale/topic"
)

// Records gives padded records in the order of the stream, up to limit bytes at a time.
type Records interface {
	Read(dst []byte, limit int) ([]byte, message.Progress, error)
}

// readBytes is what is read at once.
const readBytes = 1 << 20

// Beside is what is known of the other stores of a layer.
type Beside struct {
	Topics   map[uint32]bool // ids
	Chapters uint32          // bytes of their chapters (format.Header), as far as that is known
}

// File prepares the bytes of a file of the manifest from the records of its range, which
// from gives from the first on, all of them. Where records are missing the error wraps
// data.ErrNotHere; others are those of from. Whether it is the same file, its hash must say.
func File(meta manifest.FileMeta, topics *topic.Table, beside Beside, from Records) (write func(io.Writer) error, err error) {
	if meta.Kind == manifest.KindStore {
		return store(meta, topics, beside, from)
	}
	a := arena.New(meta.First, meta.Bytes)
	if err := each(meta, from, func(r message.Record) error {
		a.Append(topics.Partition(r.Topic()), r)
		return nil
	}); err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		_, err := arena.NewLayout(a, topics).Write(w)
		return err
	}, nil
}

// store tries chapters of all sizes that it may have, since the manifest does not say: none,
// the usual ones, and those of the other stores of the layer.
func store(meta manifest.FileMeta, topics *topic.Table, beside Beside, from Records) (func(io.Writer) error, error) {
	sizes := []uint32{0, format.ChapterBytes}
	if !slices.Contains(sizes, beside.Chapters) {
		sizes = append(sizes, beside.Chapters)
	}
	var tries []*try
	for _, n := range sizes {
		tries = append(tries, newTry(n, meta, topics))
	}
	if err := each(meta, from, func(r message.Record) error {
		for _, t := range tries {
			if err := t.add(r, !beside.Topics[r.Topic()]); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, t := range tries {
		if err := t.End(); err != nil {
			return nil, err
		}
		sum := data.NewSum()
		if err := t.write(sum); err != nil {
			return nil, err
		}
		if sum.Check(meta) == nil {
			return t.write, nil
		}
	}
	return tries[len(tries)-1].write, nil
}

// try is a store that may be the one.
type try struct {
	*format.StoreWriter
	cutter chapter.Cutter
	blocks [][]byte
}

func newTry(chapters uint32, meta manifest.FileMeta, topics *topic.Table) *try {
	t := &try{cutter: format.Chapters(chapters)}
	t.StoreWriter = format.NewStoreWriter(format.StoreOptions{
		First: meta.First, Last: meta.Last, FirstTime: meta.FirstTime, LastTime: meta.LastTime, Chapter: chapters, Name: topics.Name, Packer: format.NewPacker(),
		Keep: func(stored []byte) error {
			t.blocks = append(t.blocks, bytes.Clone(stored))
			return nil
		},
	})
	return t
}

// add passes the next record of the range.
func (t *try) add(r message.Record, own bool) error {
	if t.cutter.Next(message.Stride(len(r))) {
		if err := t.End(); err != nil {
			return err
		}
	}
	if !own {
		return nil
	}
	return t.Add(r)
}

func (t *try) write(to io.Writer) error {
	_, _, err := t.Write(to, func(write func([]byte)) error {
		for _, b := range t.blocks {
			write(b)
		}
		return nil
	})
	return err
}

// each tells f of each record of the file's range.
func each(meta manifest.FileMeta, from Records, f func(message.Record) error) error {
	var buf []byte
	for next := meta.First; next <= meta.Last; {
		var p message.Progress
		var err error
		if buf, p, err = from.Read(buf[:0], readBytes); err != nil {
			return err
		}
		if p.Scanned < next {
			return fmt.Errorf("%w: messages %d to %d", data.ErrNotHere, next, meta.Last)
		}
		for rest := buf; len(rest) > 0 && next <= meta.Last; next++ {
			var r message.Record
			if r, rest, err = message.Split(rest); err != nil {
				return err
			}
			if r.Seq() != next {
				return fmt.Errorf("%w: message %d: there is %d", data.ErrNotHere, next, r.Seq())
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}
