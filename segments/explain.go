package segments

import (
	"errors"
	"fmt"

	"chorale/message"
	"chorale/segments/data"
	"chorale/segments/scan"
	"chorale/topic"
)

// The words of a plan; see scan.
type (
	Plan   = scan.Plan
	Amount = scan.Amount
	Floors = scan.Floors
)

// Explain gives take, range by range, what a reader of the selection would read from
// behind seq after on to come behind seq until. It reads tables, and no message of a
// file; what is in memory it counts. Plans end with their range, which may be behind
// until. What lies below floors is read, and counts as none. Errors are those of
// Reader.Read and those of take.
func (l *Log) Explain(sel *topic.Selection, floors Floors, after, until uint64, take func(Plan) error) error {
	r := l.NewReader(sel, after)
	r.q.Floors = floors
	x := l.scans.NewExplainer(r.q)
	for until = min(until, l.End()); r.pos < until; {
		p, err := r.plan(x, until)
		if errors.Is(err, data.ErrGone) {
			continue // the next view does not have the file
		}
		if err != nil {
			return err
		}
		r.pos = p.Last
		if err := take(p); err != nil {
			return err
		}
	}
	return nil
}

// plan explains the part of the history that holds the next message.
func (r *Reader) plan(x *scan.Explainer, until uint64) (Plan, error) {
	end, v := r.view()
	next := r.pos + 1
	if next < v.manifest.Oldest() {
		return Plan{}, fmt.Errorf("%w: position %d, the oldest message is %d", ErrExpired, next, v.manifest.Oldest())
	}
	if s, last := v.stretch(next, end); s != nil {
		return r.count(s, min(last, until)), nil
	}
	i := v.manifest.Find(next)
	if i == len(v.files) {
		return Plan{}, fmt.Errorf("%w: position %d, a snapshot of the state is being installed", ErrNotHere, next)
	}
	f, of, err := r.choose(v, i)
	if err != nil {
		return Plan{}, err
	}
	p, err := x.Explain(f.first, f.last, r.pos, until, f.files)
	if p.Files = of; p.Kind == 0 { // nothing in the range concerns the reader
		p.Kind = v.manifest.Files[i].Kind
	}
	return p, err
}

// count passes over the records of a stretch up to seq last.
func (r *Reader) count(s *stretch, last uint64) Plan {
	p := Plan{First: r.pos + 1, Last: last}
	var messages, bytes uint64
	at := s.Seek(r.pos + 1)
	for range last - r.pos {
		b, next := s.At(at)
		if r.q.Left(message.Record(b)) {
			messages++
			bytes += uint64(len(b))
		}
		at = next
	}
	p.Messages, p.Bytes = scan.Exactly(messages), scan.Exactly(bytes)
	return p
}
