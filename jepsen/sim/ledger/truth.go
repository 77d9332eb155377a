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
	"chorale/raftfsm/kept"
	"chorale/retention"

	"github.com/hashicorp/raft"
)

// Truth is what the committed log means.
type Truth struct {
	// Stream is every message, whether it is still kept or not.
	Stream []history.Message
	// Oldest is the oldest seq that must be kept, 1 if everything must: no expiry that was
	// ever committed reached farther.
	Oldest uint64

	// Floors is what may have gone of subtrees, by filter: by no rise of floors that was ever
	// committed more.
	Floors map[string]uint64

	// Drops are the commands that named files of which nothing was left.
	Drops int

	rules     retention.Rules
	outcomes  map[string][]model.Outcome // of a unit, by the body of its first message
	retention raftfsm.Retention
}

// Replay runs the log up to an index through the model. A finding is an entry that no
// majority holds, or that cannot be read.
func (l *Ledger) Replay(applied uint64) (Truth, []check.Finding) {
	t := Truth{Oldest: 1, Floors: map[string]uint64{}, outcomes: map[string][]model.Outcome{}}
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
	case raftfsm.KindRules:
		if e.Rules.Known == t.rules.Number {
			t.rules = retention.Sorted(e.Rules.Known, e.Rules.Rules)
		}
	case raftfsm.KindFloors:
		s.Advance(e.Floors.Time)
		t.rise(s, e.Floors)
	case raftfsm.KindDrop: // what it may take away, the floors say
		t.Drops++
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

// rise notes what a rise of floors may have taken away: where age alone decides, nothing that
// is too young. One that was found by other rules is refused.
func (t *Truth) rise(s *model.State, x kept.Rise) {
	if x.Rules != t.rules.Number {
		return
	}
	already := t.floors()
	for _, f := range x.Floors {
		rule := t.rules.List[f.Rule]
		below := []history.Floor{{Filter: rule.Filter, Seq: f.Seq}}
		young := slices.ContainsFunc(s.Stream, func(m history.Message) bool {
			return check.Gone(below, m) && m.Time >= s.Time()-rule.Age && !check.Gone(already, m)
		})
		if !young || rule.Bytes > 0 {
			t.Floors[rule.Filter] = max(t.Floors[rule.Filter], f.Seq)
		}
	}
}

func (t Truth) floors() (out []history.Floor) {
	for filter, seq := range t.Floors {
		out = append(out, history.Floor{Filter: filter, Seq: seq})
	}
	return out
}

// Left are the messages that no floor says have gone.
func (t Truth) Left(stream []history.Message) (out []history.Message) {
	floors := t.floors()
	for _, m := range stream {
		if !check.Gone(floors, m) {
			out = append(out, m)
		}
	}
	return out
}

// risen finds floors that a reader was told of and that nothing committed explains.
func (t Truth) risen(h *history.History) (out []check.Finding) {
	for _, r := range h.Reads {
		for _, f := range r.Floors {
			if f.Seq > t.Floors[f.Filter] {
				out = append(out, check.Finding{Check: "expired-too-early", Text: fmt.Sprintf(
					"reader %d on %s was told that everything of %s before %d has gone: by the log everything before %d", r.Reader, r.Node, f.Filter, f.Seq, t.Floors[f.Filter])})
			}
		}
	}
	return out
}

// Compare judges what a reader of everything got, of which what lies before oldest has
// expired, and every answer that publishers were given.
func (t Truth) Compare(h *history.History, stream []history.Message, oldest uint64) []check.Finding {
	if oldest > t.Oldest {
		return []check.Finding{{Check: "expired-too-early", Text: fmt.Sprintf("the oldest message is %d, those from %d on had to be kept", oldest, t.Oldest)}}
	}
	left := t.Stream[min(max(oldest, 1)-1, uint64(len(t.Stream))):]
	for len(stream) > 0 && stream[0].Seq < oldest {
		stream = stream[1:]
	}
	out := append(t.risen(h), check.Same("the model", t.Left(left), "the cluster", t.Left(stream))...)
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
