package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"chorale/jepsen/check"
	"chorale/jepsen/history"
	"chorale/jepsen/model"
	"chorale/message"
	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

// Truth is what the committed log means.
type Truth struct {
	// Stream is every message, whether it is still kept or not.
	Stream []history.Message
	// Oldest is the oldest seq that must be kept, 1 if everything must: no expiry that was
	// ever committed reached farther.
	Oldest uint64

	outcomes  map[string][]model.Outcome // of a unit, by the body of its first message
	retention raftfsm.Retention
}

// Replay runs the log up to an index through the model. A finding is an entry that no
// majority holds, or that cannot be read.
func (l *Ledger) Replay(applied uint64) (Truth, []check.Finding) {
	t := Truth{Oldest: 1, outcomes: map[string][]model.Outcome{}}
	var s model.State
	for index := uint64(1); index <= applied; index++ {
		e, ok := l.committed(index)
		if !ok {
			return t, []check.Finding{{Check: "no-majority", Text: fmt.Sprintf("applied up to %d, no majority holds index %d", applied, index)}}
		}
		if e.Type != raft.LogCommand {
			continue
		}
		if err := t.step(&s, e.Data); err != nil {
			return t, []check.Finding{{Check: "bad-entry", Text: fmt.Sprintf("index %d: %v", index, err)}}
		}
	}
	t.Stream = s.Stream
	return t, nil
}

func (t *Truth) step(s *model.State, data []byte) error {
	e, err := raftfsm.DecodeEntry(data)
	if err != nil {
		return err
	}
	switch e.Kind {
	case raftfsm.KindRetain:
		t.retention = e.Retain
	case raftfsm.KindExpire:
		s.Advance(e.Expire.Time)
		t.expire(s, e.Expire)
	}
	for _, raw := range e.Batches {
		units, err := unitsOf(bytes.Clone(raw))
		if err != nil {
			return err
		}
		for _, u := range units {
			first := string(u.Messages[0].Body)
			t.outcomes[first] = append(t.outcomes[first], s.Step(e.Time, u))
		}
	}
	return nil
}

// expire notes what an expiry may have taken away: where age alone decides, nothing that
// is too young. One that was proposed under an earlier retention is refused, and so is none
// for the model; if it was not refused, Compare finds that too little is kept.
func (t *Truth) expire(s *model.State, x raftfsm.Expiry) {
	if t.retention == (raftfsm.Retention{}) || x.Oldest <= t.Oldest || x.Oldest > uint64(len(s.Stream)) {
		return
	}
	if t.retention.Bytes == 0 {
		for _, m := range s.Stream[t.Oldest-1 : x.Oldest-1] {
			if m.Time >= s.Time()-t.retention.Age {
				return
			}
		}
	}
	t.Oldest = x.Oldest
}

// Compare judges what a reader of everything got, which may begin behind what has
// expired, and every answer that publishers were given.
func (t Truth) Compare(h *history.History, stream []history.Message) []check.Finding {
	kept := t.Stream
	if len(stream) > 0 && stream[0].Seq > 1 {
		if stream[0].Seq > t.Oldest {
			return []check.Finding{{Check: "expired-too-early", Text: fmt.Sprintf("the oldest message is %v, those from %d on had to be kept", stream[0], t.Oldest)}}
		}
		kept = kept[min(stream[0].Seq-1, uint64(len(kept))):]
	}
	out := check.Same("the model", kept, "the cluster", stream)
	for _, a := range h.Attempts {
		u := h.Units[a.Unit]
		got := model.Outcome{Result: a.Result, Seq: a.Seq, Index: a.Index}
		unanswered := a.Result == history.Unknown || a.Result == history.Failed
		if outcomes := t.outcomes[string(u.Messages[0].Body)]; !unanswered && !slices.Contains(outcomes, got) {
			out = append(out, check.Finding{Check: "not-the-model's-answer", Text: fmt.Sprintf(
				"client %d, number %d: %s said %+v, the model %+v", u.Client, u.Number, a.Node, got, outcomes)})
		}
	}
	return out
}

// unitsOf takes a batch apart.
func unitsOf(raw []byte) (out []history.Unit, err error) {
	b, err := message.ParseBatch(raw)
	if err != nil {
		return nil, err
	}
	left := 0
	for rest := b.Records; len(rest) > 0; {
		var r message.Record
		if r, rest, err = message.Split(rest); err != nil {
			return nil, err
		}
		if left == 0 {
			out, left = append(out, history.Unit{Client: clientOf(b.Producer), Number: r.Number()}), r.UnitLeft()
		}
		left--
		m := history.Draft{Topic: string(b.Topics[r.Topic()]), Body: r.Body()}
		if expected, ok := r.Expected(); ok {
			m.Expected = &expected
		}
		u := &out[len(out)-1]
		u.Messages = append(u.Messages, m)
	}
	return out, nil
}

// ProducerOf maps a client's number to its identity; 0 has none.
func ProducerOf(client int) (p message.ProducerID) {
	binary.BigEndian.PutUint64(p[:], uint64(client))
	return p
}

func clientOf(p message.ProducerID) int { return int(binary.BigEndian.Uint64(p[:])) }
