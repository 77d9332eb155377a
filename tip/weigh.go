package tip

import "chorale/topic"

// Share is what a selection wants of a stretch of the tip. Messages is exact. Bytes,
// of padded records, is within LowBytes and HighBytes, and exact if these are equal.
type Share struct {
	Messages                   uint64
	Bytes, LowBytes, HighBytes uint64
}

const (
	// weighedAll is how many wanted messages are asked for their sizes, each a look at
	// cold memory; of those beyond, one of weighedStep is asked.
	weighedAll  = 64 << 10
	weighedStep = 16
)

// Weigh looks at the indexes and tells what the selection wants of the messages behind
// seq after up to seq until, or to the head if that comes first. ErrEvicted means that
// a part of them has left the ring. Any goroutine, as long as the selection is its own.
func (t *Tip) Weigh(sel *topic.Selection, after, until uint64) (Share, error) {
	return t.now().weigh(sel, after, until, weighedAll)
}

func (t *held) weigh(sel *topic.Selection, after, until, all uint64) (Share, error) {
	head, end := t.head()
	until = min(until, head)
	if after >= until {
		return Share{}, nil
	}
	w := weighing{tip: t, sel: sel, all: all}
	var err error
	if w.lo, err = t.placeOf(after, head, end); err != nil {
		return Share{}, err
	}
	if w.hi, err = t.placeOf(until, head, end); err != nil {
		return Share{}, err
	}
	if sel.All() {
		w.messages, w.asked, w.bytes = until-after, until-after, w.total()
	} else {
		for _, id := range sel.Partitions() {
			w.partition(id)
		}
	}
	s := w.share(until - after)
	if t.floorPosition.Load() > w.lo {
		return Share{}, ErrEvicted
	}
	return s, nil
}

// placeOf is the position behind the record of a seq.
func (t *held) placeOf(seq, head, end uint64) (uint64, error) {
	side := t.grace.enter()
	defer t.grace.leave(side)
	r := Reader{tip: t, scanned: seq}
	err := r.place(head, end)
	return r.at, err
}

// weighing counts what is wanted between two positions.
type weighing struct {
	tip             *held
	sel             *topic.Selection
	lo, hi          uint64 // positions
	all             uint64 // so many are asked for their sizes
	messages, asked uint64
	bytes           uint64  // of those that were asked
	guess           float64 // of the others
}

// total is the bytes of all records.
func (w *weighing) total() (bytes uint64) {
	g := &w.tip.ring
	for n := w.lo >> g.shift; n<<g.shift < w.hi; n++ {
		side := w.tip.grace.enter()
		if c := g.chunk(n); c != nil { // else it is evicted, and Weigh finds out
			from := max(w.lo, n<<g.shift) - n<<g.shift
			bytes += uint64(g.end(c, w.hi)) - from*unitBytes
		}
		w.tip.grace.leave(side)
	}
	return bytes
}

// partition passes over the entries of one partition.
func (w *weighing) partition(id uint32) {
	p := w.tip.index.partition(id)
	if p == nil {
		return
	}
	covered := w.sel.PartitionCovered(id)
	side := w.tip.grace.enter()
	defer w.tip.grace.leave(side)
	b, i := p.seek(w.lo)
	for b != nil && b.base < w.hi {
		next, n := b.next.Load(), int(b.visible.Load())
		for ; i < n && b.position(i) < w.hi; i++ {
			if covered || w.sel.Match(uint32(b.entries[i]>>32)) {
				w.add(b.position(i))
			}
		}
		if next == nil || i < int(b.filled) {
			break
		}
		b, i = next, 0
	}
}

// add counts a wanted message, and asks it for its size if it is its turn.
func (w *weighing) add(position uint64) {
	w.messages++
	step := uint64(1)
	if w.messages > w.all {
		if step = weighedStep; w.messages%weighedStep > 0 {
			return
		}
	}
	g := &w.tip.ring
	c := g.chunk(position >> g.shift)
	if c == nil {
		return // it is evicted, and Weigh finds out
	}
	stride := uint64(c.stride(int(position-c.number<<g.shift) * unitBytes))
	w.asked++
	w.bytes += stride
	w.guess += float64(stride * (step - 1))
}

// share sums up, of so many messages in all.
func (w *weighing) share(of uint64) Share {
	others := w.messages - w.asked
	s := Share{Messages: w.messages, LowBytes: w.bytes + others*minStride}
	s.HighBytes = s.LowBytes
	if others > 0 {
		s.HighBytes = max(s.LowBytes, w.total()-min((of-w.messages)*minStride, w.total()))
	}
	s.Bytes = min(max(w.bytes+uint64(w.guess), s.LowBytes), s.HighBytes)
	return s
}
