package recovery

import (
	"errors"
	"fmt"

	"chorale/segments"
	"chorale/tip"
	"chorale/topic"
)

// Part is what a cursor would read of one range of the history, or of the tip, of which
// First, Last, Messages and Bytes are all there is to say.
type Part struct {
	segments.Plan
	Tip bool
}

// Explain gives take, part by part, what a cursor behind seq after would read to come
// to seq until, or to the head if that comes first, as history and tip are now. No
// message is delivered, and none is read from a file. Errors are those of the history,
// and those of take.
//
// The last range of files before the tip is told as a whole, so that its messages are
// exact; the bounds of what is read of it say where the tip begins. A cursor that finds
// nothing there may read on in the files for one read.
func (s Source) Explain(f *topic.Filters, after, until uint64, take func(Part) error) error {
	sel, gone := topic.NewSelection(s.Topics, f), sieve{topics: s.Topics}
	gone.take(s.floors())
	floors := segments.Floors{Of: gone.of, Highest: gone.floors.Highest()}
	until = min(until, s.Tip.Head())
	for at := after; at < until; {
		if floor := s.Tip.Floor(); at+1 < floor {
			before := at
			err := s.History.Explain(sel, floors, at, min(until, floor-1), func(p segments.Plan) error {
				at = p.Last
				return take(Part{Plan: p})
			})
			if err != nil {
				return err
			}
			if at == before { // between the two publications of a restore
				return fmt.Errorf("%w: position %d", segments.ErrNotHere, at+1)
			}
			continue
		}
		p, err := s.explainTip(sel, &gone, at, until)
		if errors.Is(err, tip.ErrEvicted) {
			continue
		}
		if err != nil {
			return err
		}
		at = until
		if err := take(p); err != nil {
			return err
		}
	}
	return nil
}

// explainTip is the part that the tip is. What floors reach into is counted by reading.
func (s Source) explainTip(sel *topic.Selection, gone *sieve, after, until uint64) (Part, error) {
	border := min(max(gone.floors.Highest(), after+1)-1, until)
	messages, bytes, err := gone.kept(s, sel, after, border)
	if err != nil {
		return Part{}, err
	}
	share, err := s.Tip.Weigh(sel, border, until)
	return Part{Tip: true, Plan: segments.Plan{
		First: after + 1, Last: until,
		Messages: segments.Amount{Low: share.Messages, Estimate: share.Messages, High: share.Messages}.Plus(exactly(messages)),
		Bytes:    segments.Amount{Low: share.LowBytes, Estimate: share.Bytes, High: share.HighBytes}.Plus(exactly(bytes)),
	}}, err
}

func exactly(n uint64) segments.Amount { return segments.Amount{Low: n, Estimate: n, High: n} }
