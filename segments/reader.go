package segments

import (
	"errors"
	"fmt"
	"math"

	"chorale/message"
	"chorale/segments/arena"
	"chorale/segments/data"
	"chorale/segments/scan"
	"chorale/topic"
)

// Reader walks the wanted messages of the history. For one goroutine.
//
// It stands at a position, the last seq that was considered. In memory it keeps
// the place of the next record; in a range of files the window that it is in.
type Reader struct {
	log  *Log
	q    *scan.Query
	pos  uint64
	last uint64 // not to be passed
	pins *pins  // of a reader of a range; else nil

	// at is the place of pos+1 in the stretch with this serial number; 0 is none.
	// The number, and not the stretch, so that a reader who pauses keeps no memory.
	serial uint64
	at     arena.Place

	scan *scan.Scan // of the range that holds pos+1; nil outside of files
}

// NewReader starts behind seq after. Close releases what it holds.
func (l *Log) NewReader(sel *topic.Selection, after uint64) *Reader {
	return &Reader{log: l, q: l.scans.NewQuery(sel), pos: after, last: math.MaxUint64}
}

// BytesRead is how many bytes this reader has read from files.
func (r *Reader) BytesRead() int64 { return r.q.BytesRead }

// BytesLooked is how many bytes of tables and of records of files it has looked
// through; those that others had read into the cache count too.
func (r *Reader) BytesLooked() int64 { return r.q.BytesLooked }

// scanBudget is how many bytes of files or memory one Read looks through before it
// returns without having found anything, so that its caller can look at a context
// and tell how far the reader has come.
const scanBudget = 16 << 20

// Read appends padded records of wanted messages to dst until limit bytes were
// appended (always at least one message if it comes to one), a budget of bytes was
// looked through, or the end of the history is reached. So it may append nothing
// and yet move on: at the end is who stands at Log.End. Progress.Scanned is never
// below the position before. Errors: ErrExpired, ErrNotHere, ErrCorrupt (once; the
// file is then missing) and the disk's; Progress and dst are valid with each.
func (r *Reader) Read(dst []byte, limit int) ([]byte, message.Progress, error) {
	out := scan.Output{Bytes: dst, Limit: len(dst) + limit}
	var err error
	for spent := int64(0); err == nil && spent < scanBudget && !out.Full; {
		var n int64
		if n, err = r.step(&out); n == 0 {
			break
		}
		spent += n
	}
	return out.Bytes, message.Progress{Count: out.Count, Scanned: r.pos}, err
}

// step reads on in the part of the history that holds the next message, and
// returns how many bytes it looked through: 0 at the end.
func (r *Reader) step(out *scan.Output) (int64, error) {
	if r.scan != nil {
		return r.stepFile(out)
	}
	end, v := r.view()
	next := r.pos + 1
	switch {
	case next > end:
		return 0, nil
	case next < v.manifest.Oldest():
		return 0, fmt.Errorf("%w: position %d, the oldest message is %d", ErrExpired, next, v.manifest.Oldest())
	}
	if s, last := v.stretch(next, end); s != nil {
		return r.stepMemory(out, s, last), nil
	}
	i := v.manifest.Find(next)
	if i == len(v.files) {
		return 0, nil // End is ahead of the view: a Restore is under way
	}
	return r.open(v, i)
}

// view is the newest one, or that of a reader of a range, and the last readable seq.
func (r *Reader) view() (uint64, *view) {
	if r.pins != nil {
		return r.last, r.pins.view
	}
	return r.log.End(), r.log.view.Load()
}

// stepMemory passes the records of a stretch up to seq last, as far as the output
// and the budget go.
func (r *Reader) stepMemory(out *scan.Output, s *stretch, last uint64) int64 {
	if r.serial != s.serial {
		r.serial, r.at = s.serial, s.Seek(r.pos+1)
	}
	spent := int64(0)
	for r.pos < last && spent < scanBudget {
		b, next := s.At(r.at)
		if r.q.Wants(message.Record(b).Topic()) && !out.Add(b) {
			break
		}
		r.at = next
		r.pos++
		spent += int64(len(b))
	}
	return spent
}

// open starts on the range of the manifest that begins at index i. Tables count as
// looked through, and at least a byte, since the reader comes nearer to its goal.
func (r *Reader) open(v *view, i int) (int64, error) {
	x, _, err := r.choose(v, i)
	if err != nil {
		return 0, err
	}
	before := r.q.BytesRead
	c, err := r.log.scans.Open(r.q, x.first, x.last, r.pos, r.last, x.files)
	switch {
	case errors.Is(err, data.ErrGone):
		return 1, nil // the next step sees a newer view
	case err != nil:
		return 0, err
	}
	r.scan = c
	return r.q.BytesRead - before + 1, nil
}

// choose takes the files of a range that concern the reader, or, if one of these is not
// here, those that they replace; and says of how many.
func (r *Reader) choose(v *view, i int) (chosen span, of int, err error) {
	m, files := v.manifest.Files[i], v.files[i:i+v.manifest.Layer(i)]
	x := span{m.First, m.Last, make([]*file, 0, len(files))}
	for j, f := range files {
		m := v.manifest.Files[i+j]
		if !r.q.Concerns(m) {
			continue
		}
		if f == nil {
			old, ok := v.keptAt(r.pos + 1)
			if !ok {
				return x, 0, &MissingError{Meta: m, Position: r.pos + 1}
			}
			return old, len(old.files), nil
		}
		x.files = append(x.files, f)
	}
	return x, len(files), nil
}

// stepFile gives out what is left of the window, and then loads the next one.
func (r *Reader) stepFile(out *scan.Output) (int64, error) {
	c := r.scan
	if r.pos < c.End() {
		before := len(out.Bytes)
		r.pos = c.Emit(out)
		return int64(len(out.Bytes)-before) + 1, nil
	}
	if c.Done() {
		r.leave()
		return 1, nil
	}
	n, err := c.Load()
	if err != nil {
		r.leave()
		return 0, err
	}
	return n + 1, nil
}

func (r *Reader) leave() {
	if r.scan != nil {
		r.scan.Close()
		r.scan = nil
	}
}

// Close releases files and buffers.
func (r *Reader) Close() {
	r.leave()
	if r.pins != nil {
		r.pins.release()
	}
}
