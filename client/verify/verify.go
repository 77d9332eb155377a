// Package verify proves, from what a subscription is given alone, that it is all of
// what was promised: every message whole, in order, once, and none missing.
package verify

import (
	"fmt"

	"chorale/api"
	"chorale/message"
	"chorale/retention"
	"chorale/topic"
)

// Verifier holds what arrives against what a subscription was promised. It knows
// nothing of connections: frames go in, and what one node left unfinished the next
// must continue.
//
// After every accepted frame: after <= scanned; every wanted message in
// (after, scanned] was delivered, in order, once, or lies below a floor of its topic that
// a node has told.
type Verifier struct {
	filters *topic.Filters
	after   uint64 // where the subscription started
	until   uint64 // where it ends, if bounded
	bounded bool
	scanned uint64
	topics  Topics
	floors  *retention.Floors
	// expired is told of messages that had gone before they were delivered.
	expired func(Gone)
}

// Gone says that messages of a topic had gone before they were delivered: some or all of
// those behind After, up to Last, which is one of them.
type Gone struct {
	Topic       string
	After, Last uint64
}

// New returns the verifier of a subscription that starts behind seq after. If it is
// bounded, it ends with seq until. expired is told of messages that had gone before they
// were delivered, by Accept; nil if nobody wants to know.
func New(filters *topic.Filters, after uint64, bounded bool, until uint64, expired func(Gone)) *Verifier {
	if expired == nil {
		expired = func(Gone) {}
	}
	return &Verifier{filters: filters, after: after, until: until, bounded: bounded, scanned: after, expired: expired}
}

// Scanned is the seq up to which everything was verified; the start before any.
func (v *Verifier) Scanned() uint64 { return v.scanned }

// Topics is the table of names as it stands now; see Topics for how long it is good.
func (v *Verifier) Topics() Topics { return v.topics }

// Finding is a broken promise.
type Finding struct {
	Seq    uint64 // of the message that shows it; 0 if none does
	Reason string
	Err    error // of a checksum, or nil
}

func found(seq uint64, format string, args ...any) *Finding {
	return &Finding{Seq: seq, Reason: fmt.Sprintf(format, args...)}
}

// Finished reports whether everything up to a bounded subscription's end is there.
func (v *Verifier) Finished() bool { return v.bounded && v.scanned >= v.until }

// Accept verifies a frame and returns its records and their number. With cut,
// records beyond the end are left out; without, they are a violation. After a
// finding the verifier is of no more use.
func (v *Verifier) Accept(f *api.Frame, cut bool) ([]byte, int, *Finding) {
	for _, t := range f.Topics {
		if bad := v.announce(t); bad != nil {
			return nil, 0, bad
		}
	}
	if bad := v.rise(f); bad != nil {
		return nil, 0, bad
	}
	records := f.RecordBytes()
	count, last := 0, v.scanned
	for rest := records; len(rest) > 0; count++ {
		r, tail, err := message.Split(rest)
		if err == nil {
			err = r.Check()
		}
		if err != nil {
			return nil, 0, &Finding{Reason: err.Error(), Err: err}
		}
		if seq := r.Seq(); v.bounded && seq > v.until {
			if !cut {
				return nil, 0, found(seq, "seq %d lies beyond the end, %d", seq, v.until)
			}
			records = records[:len(records)-len(rest)]
			break
		}
		if bad := v.message(r, last); bad != nil {
			return nil, 0, bad
		}
		last, rest = r.Seq(), tail
	}
	if f.ScannedSeq < last || f.ScannedSeq > f.TipSeq {
		return nil, 0, found(0, "scanned up to %d, but seq %d was delivered and the tip is at %d", f.ScannedSeq, last, f.TipSeq)
	}
	v.scanned = f.ScannedSeq
	if v.bounded {
		v.scanned = min(v.scanned, v.until)
	}
	return records, count, nil
}

// rise takes the floors of a frame.
func (v *Verifier) rise(f *api.Frame) *Finding {
	var risen []retention.Floor
	for _, floor := range f.Floors {
		if floor.Seq > f.TipSeq+1 {
			return found(0, "everything of %q before %d is said to have gone, and the tip is at %d", floor.Filter, floor.Seq, f.TipSeq)
		}
		one := retention.Floor{Filter: floor.Filter, Seq: floor.Seq}
		if err := one.Check(); err != nil {
			return found(0, "it tells what has gone: %v", err)
		}
		risen = append(risen, one)
	}
	v.floors = v.floors.With(risen...)
	return nil
}

// message verifies the place of one message. Its prev says which message of its
// topic must have come before: the one that did, or none since the start; or one that
// has gone, as a floor says.
func (v *Verifier) message(r message.Record, last uint64) *Finding {
	seq, prev := r.Seq(), r.Prev()
	if seq <= last {
		return found(seq, "seq %d came when everything up to %d was delivered", seq, last)
	}
	t := v.topics.get(r.Topic())
	switch {
	case t == nil || t.name == "":
		return found(seq, "seq %d is of topic id %d, which has no name", seq, r.Topic())
	case !t.wanted:
		return found(seq, "seq %d is of topic %s, which no filter matches", seq, t.name)
	}
	known := max(t.last, v.after)
	switch gone := prev > known && prev < v.floors.Of(t.name); {
	case gone:
		v.expired(Gone{t.name, known, prev})
	case t.last > 0 && prev != t.last:
		return found(seq, "seq %d of topic %s follows seq %d of it, but %d was delivered", seq, t.name, prev, t.last)
	case t.last == 0 && prev > v.after:
		return found(seq, "seq %d of topic %s follows seq %d of it, which was not delivered although it lies behind the start, %d", seq, t.name, prev, v.after)
	}
	t.last = seq
	return nil
}

// announce notes the name of a topic id. Ids are the stream's own, so every node
// gives the same ones.
func (v *Verifier) announce(a *api.TopicName) *Finding {
	t := v.topics.make(a.Id)
	if t.name != "" && t.name != a.Name || a.Name == "" {
		return found(0, "topic id %d is called %q and was %q", a.Id, a.Name, t.name)
	}
	if t.name == "" {
		t.name, t.wanted = a.Name, v.filters.Match(a.Name)
	}
	return nil
}

// Topics is a table by id, in pages that stay where they are. A copy of it may be
// read for names by another goroutine while the original grows: names are written
// once, before the copy is made.
type Topics struct{ pages []*topicPage }

// Name is the name of the topic of a verified message.
func (t *Topics) Name(id uint32) string { return t.get(id).name }

const topicPageSize = 1024

type topicPage [topicPageSize]topicState

type topicState struct {
	name   string
	last   uint64 // seq of the topic's message that was delivered last
	wanted bool
}

// get is nil for an id on a page that does not exist.
func (t *Topics) get(id uint32) *topicState {
	p := int(id / topicPageSize)
	if p >= len(t.pages) || t.pages[p] == nil {
		return nil
	}
	return &t.pages[p][id%topicPageSize]
}

func (t *Topics) make(id uint32) *topicState {
	p := int(id / topicPageSize)
	for len(t.pages) <= p {
		t.pages = append(t.pages, nil)
	}
	if t.pages[p] == nil {
		t.pages[p] = new(topicPage)
	}
	return &t.pages[p][id%topicPageSize]
}
