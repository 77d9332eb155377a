// Package rebuild writes data files again, from the records of their range.
package rebuild

import (
	"fmt"
	"io"

	"chorale/message"
	"chorale/segments/arena"
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

// File prepares the bytes of a file of the manifest from the records of its range, which
// from gives from the first on, all of them. others are the topics that are not in a
// store. Where records are missing the error wraps data.ErrNotHere; others are those of
// from. Whether it is the same file, its hash must say.
func File(meta manifest.FileMeta, topics *topic.Table, others map[uint32]bool, from Records) (write func(io.Writer) error, err error) {
	if meta.Kind == manifest.KindStore {
		return store(meta, topics, others, from)
	}
	a := arena.New(meta.First, meta.Bytes)
	if err := each(meta, from, func(r message.Record) { a.Append(topics.Partition(r.Topic()), r) }); err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		_, err := arena.NewLayout(a, topics).Write(w)
		return err
	}, nil
}

func store(meta manifest.FileMeta, topics *topic.Table, others map[uint32]bool, from Records) (func(io.Writer) error, error) {
	w := format.NewStoreWriter(format.NewPacker(), meta.First, meta.Last, meta.FirstTime, meta.LastTime)
	var blocks [][]byte
	keep := func(stored []byte) {
		if stored != nil {
			blocks = append(blocks, append([]byte(nil), stored...))
		}
	}
	if err := each(meta, from, func(r message.Record) {
		if !others[r.Topic()] {
			keep(w.Add(r))
		}
	}); err != nil {
		return nil, err
	}
	keep(w.End())
	return func(to io.Writer) error {
		_, _, err := w.Write(to, topics.Name, func(write func([]byte)) error {
			for _, b := range blocks {
				write(b)
			}
			return nil
		})
		return err
	}, nil
}

// each tells f of each record of the file's range.
func each(meta manifest.FileMeta, from Records, f func(message.Record)) error {
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
			f(r)
		}
	}
	return nil
}
