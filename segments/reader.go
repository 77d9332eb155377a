package segments

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"chorale/message"
	"chorale/segments/arena"
	"chorale/segments/format"
	"chorale/topic"
)

// Reader walks the wanted messages of the history. For one goroutine.
//
// It stands at a position, the last seq that was considered. In memory it keeps
// the place of the next record; in a file it keeps the window that it is in.
type Reader struct {
	log *Log
	sel *topic.Selection
	pos uint64

	// at is the place of pos+1 in the stretch with this serial number; 0 is none.
	// The number, and not the stretch, so that a reader who pauses keeps no memory.
	serial uint64
	at     arena.Place

	scan *fileScan // of the file that holds pos+1; nil outside of files
	read int64
}

// NewReader starts behind seq after. Close releases what it holds.
func (l *Log) NewReader(sel *topic.Selection, after uint64) *Reader {
	return &Reader{log: l, sel: sel, pos: after}
}

// BytesRead is how many bytes this reader has read from files.
func (r *Reader) BytesRead() int64 { return r.read }

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
	out := output{dst: dst, limit: len(dst) + limit}
	var err error
	for spent := int64(0); err == nil && spent < scanBudget && !out.full; {
		var n int64
		if n, err = r.step(&out); n == 0 {
			break
		}
		spent += n
	}
	return out.dst, message.Progress{Count: out.count, Scanned: r.pos}, err
}

// output is what one Read appends to.
type output struct {
	dst   []byte
	limit int // length of dst not to be passed
	count int
	full  bool // the next message did not fit
}

// add appends a record if it fits.
func (o *output) add(padded []byte) bool {
	if len(o.dst)+len(padded) > o.limit && o.count > 0 {
		o.full = true
		return false
	}
	o.dst = append(o.dst, padded...)
	o.count++
	return true
}

// step reads on in the part of the history that holds the next message, and
// returns how many bytes it looked through: 0 at the end.
func (r *Reader) step(out *output) (int64, error) {
	if r.scan != nil {
		return r.stepFile(out)
	}
	end, v := r.log.End(), r.log.view.Load()
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
	if v.files[i] == nil {
		return 0, fmt.Errorf("%w: %s, for position %d", ErrNotHere, v.manifest.Files[i].Name(), next)
	}
	return r.open(v.files[i])
}

// stepMemory passes the records of a stretch up to seq last, as far as the output
// and the budget go.
func (r *Reader) stepMemory(out *output, s *stretch, last uint64) int64 {
	if r.serial != s.serial {
		r.serial, r.at = s.serial, s.Seek(r.pos+1)
	}
	spent := int64(0)
	for r.pos < last && spent < scanBudget {
		b, next := s.At(r.at)
		if r.sel.Match(message.Record(b).Topic()) && !out.add(b) {
			break
		}
		r.at = next
		r.pos++
		spent += int64(len(b))
	}
	return spent
}

// open starts on a file. Its tables count as looked through, and at least a byte,
// since the reader comes nearer to its goal.
func (r *Reader) open(f *file) (int64, error) {
	h, err := f.acquire()
	switch {
	case errors.Is(err, errGone):
		return 1, nil // the next step sees a newer view
	case errors.Is(err, fs.ErrNotExist):
		r.log.lose(f, err)
		return 0, fmt.Errorf("%w: %s", ErrNotHere, f.Path)
	case err != nil:
		return 0, err
	}
	x, n, err := f.load()
	r.read += n
	if err != nil {
		f.release()
		return 0, r.broken(f, err)
	}
	r.scan = newFileScan(f, h, x, r.wanted(x), uint32(r.pos+1-f.meta.First), r.log.window)
	return n + 1, nil
}

// wanted lists the blocks that may hold a wanted message, in the order of the
// file.
func (r *Reader) wanted(x *format.Index) []format.Block {
	if r.sel.All() {
		return x.Blocks
	}
	var out []format.Block
	for _, p := range r.sel.Partitions() {
		out = append(out, x.Find(p)...)
	}
	slices.SortFunc(out, func(a, b format.Block) int { return cmp.Compare(a.Off, b.Off) })
	return out
}

// stepFile gives out what is left of the window, and then loads the next one.
func (r *Reader) stepFile(out *output) (int64, error) {
	c := r.scan
	first := c.file.meta.First
	if r.pos < c.end {
		before := len(out.dst)
		r.pos = c.emit(out)
		return int64(len(out.dst)-before) + 1, nil
	}
	if c.end < c.file.meta.Last {
		n, err := c.load(r.sel, uint32(r.pos+1-first))
		r.read += n
		if err != nil {
			f := c.file
			r.leave()
			return 0, r.broken(f, err)
		}
		return n + 1, nil
	}
	r.leave()
	return 1, nil
}

// broken tells the log of a damaged file.
func (r *Reader) broken(f *file, err error) error {
	if errors.Is(err, ErrCorrupt) {
		r.log.lose(f, err)
	}
	return err
}

func (r *Reader) leave() {
	if r.scan != nil {
		r.scan.close()
		r.scan = nil
	}
}

// Close releases files and buffers.
func (r *Reader) Close() { r.leave() }
