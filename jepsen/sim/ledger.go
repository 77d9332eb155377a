package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"chorale/jepsen/check"
	"chorale/jepsen/history"
	"chorale/jepsen/model"
	"chorale/jepsen/sim/power"
	"chorale/message"
	"chorale/raftfsm"

	"github.com/hashicorp/raft"
)

// ledger remembers every entry that any node stored durably: at an index the one of
// the highest term, which is the committed one where there is one, since every
// leader of a later term has it. Safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	entries map[uint64]*raft.Log
}

// witness writes down what a journal stores.
type witness struct {
	*power.Journal
	ledger *ledger
}

// StoreLog implements raft.LogStore.
func (w witness) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (w witness) StoreLogs(logs []*raft.Log) error {
	if err := w.Journal.StoreLogs(logs); err != nil {
		return err
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for _, l := range logs {
		if old := w.ledger.entries[l.Index]; old == nil || old.Term < l.Term {
			w.ledger.entries[l.Index] = &raft.Log{Index: l.Index, Term: l.Term, Type: l.Type, Data: slices.Clone(l.Data)}
		}
	}
	return nil
}

// replay runs the log up to an index through the model and compares: the stream
// must be the model's to the byte, and each answer one that the model gave.
func (l *ledger) replay(applied uint64, h *history.History, stream []history.Message) []check.Finding {
	var s model.State
	outcomes := map[string][]model.Outcome{} // of a unit, by the body of its first message
	for _, index := range slices.Sorted(maps.Keys(l.entries)) {
		if e := l.entries[index]; index <= applied && e.Type == raft.LogCommand {
			if err := step(&s, e.Data, outcomes); err != nil {
				return []check.Finding{{Check: "bad-entry", Text: fmt.Sprintf("index %d: %v", index, err)}}
			}
		}
	}
	out := check.Same("the model", s.Stream, "the cluster", stream)
	for _, a := range h.Attempts {
		u := h.Units[a.Unit]
		got := model.Outcome{Result: a.Result, Seq: a.Seq, Index: a.Index}
		unanswered := a.Result == history.Unknown || a.Result == history.Failed
		if !unanswered && !slices.Contains(outcomes[string(u.Messages[0].Body)], got) {
			out = append(out, check.Finding{Check: "not-the-model's-answer", Text: fmt.Sprintf(
				"client %d, number %d: %s said %+v, the model %+v", u.Client, u.Number, a.Node, got, outcomes[string(u.Messages[0].Body)])})
		}
	}
	return out
}

func step(s *model.State, data []byte, outcomes map[string][]model.Outcome) error {
	e, err := raftfsm.DecodeEntry(data)
	if err != nil {
		return err
	}
	for _, raw := range e.Batches {
		units, err := unitsOf(bytes.Clone(raw))
		if err != nil {
			return err
		}
		for _, u := range units {
			first := string(u.Messages[0].Body)
			outcomes[first] = append(outcomes[first], s.Step(e.Time, u))
		}
	}
	return nil
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

// producerOf and clientOf map a client's number to its identity and back; 0 has
// none.
func producerOf(client int) (p message.ProducerID) {
	binary.BigEndian.PutUint64(p[:], uint64(client))
	return p
}

func clientOf(p message.ProducerID) int { return int(binary.BigEndian.Uint64(p[:])) }
