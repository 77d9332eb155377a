package recovery_test

import (
	"context"
	"errors"
	"sync/atomic"

	"chorale/disk"
	"chorale/message"
	"chorale/recovery"
	"chorale/segments"
	"chorale/topic"
)

// counted is a file system that counts what is read.
type counted struct {
	disk.FS
	read *int64
}

func (c counted) Open(name string) (disk.File, error) {
	f, err := c.FS.Open(name)
	return countedFile{f, c.read}, err
}

type countedFile struct {
	disk.File
	read *int64
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	atomic.AddInt64(f.read, int64(n))
	return n, err
}

// explain compares what is told of a subscription with the model, and with what one
// then reads.
func (w *world) explain(ctx context.Context, list []string, after uint64) {
	f, err := topic.ParseFilters(list...)
	check(w.t, err)
	end := w.history.End()
	after = max(after, w.left(f)-1)
	var read segments.Amount
	var cached uint64
	at, onTip := after, false
	err = w.source().Explain(f, after, end, func(p recovery.Part) error {
		if p.First != at+1 || p.Last > end || onTip {
			w.t.Fatalf("behind %d: %+v", at, p)
		}
		w.explained(f, p)
		read = read.Plus(p.Read())
		cached += p.Cached
		if p.Kind == segments.KindSegment { // the table may still be in memory
			cached += p.Tables
		}
		at, onTip = p.Last, p.Tip
		return nil
	})
	if errors.Is(err, segments.ErrNotHere) || errors.Is(err, segments.ErrCorrupt) {
		w.repair()
		return
	}
	check(w.t, err)
	if at != end {
		w.t.Fatalf("explained from %d to %d, the end is %d", after, at, end)
	}
	// What a read that finds nothing passes beyond the floor of the tip.
	if over := w.source().Tip.Floor() - 1; over > after {
		if err := w.history.Explain(topic.NewSelection(w.table, f), segments.Floors{}, over, end, func(p segments.Plan) error {
			read.High += p.Read().High
			return nil
		}); err != nil { // of a file that is not needed
			w.repair()
			return
		}
	}
	before := w.read
	s := w.subscribe(f, after)
	defer s.Close()
	for s.pos < end {
		if err := w.next(ctx, s, 1000); err != nil {
			w.repair()
			return
		}
	}
	if n := uint64(w.read - before); n+cached < read.Low || n > read.High {
		w.t.Fatalf("%q behind %d: %d bytes were read, %d may have been cached, told was %+v", list, after, n, cached, read)
	}
}

// explained compares one part with the model.
func (w *world) explained(f *topic.Filters, p recovery.Part) {
	var messages, size uint64
	for _, r := range w.all[p.First-1 : p.Last] {
		if f.Match(w.table.Name(r.Topic())) && !w.gone(w.risen, r) {
			messages++
			size += uint64(message.Stride(len(r)))
		}
	}
	m, b := p.Messages, p.Bytes
	if messages < m.Low || messages > m.High || m.Estimate < m.Low || m.Estimate > m.High ||
		size < b.Low || size > b.High || b.Estimate < b.Low || b.Estimate > b.High {
		w.t.Fatalf("%q: %d messages of %d bytes, told was %+v", f.Canonical(), messages, size, p)
	}
	files := w.history.Manifest()
	i := files.Find(p.First)
	if whole := i == len(files.Files) || files.Files[i].First == p.First; (whole && w.floors.Highest() <= p.First || p.Kind == 0) && !(m.Exact() && b.Exact()) {
		w.t.Fatalf("%q: not exact: %+v", f.Canonical(), p)
	}
}
