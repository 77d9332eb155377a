package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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

// ledger remembers, for each node, what it durably stored last at each index of the
// log. A committed entry is one that a majority holds there: no node that has it
// ever stores another in its place, and what is not committed is never the last of
// more than a minority where another is. Safe for concurrent use.
type ledger struct {
	mu   sync.Mutex
	last [nodes]map[uint64]raft.Log
}

func (l *ledger) note(node int, e raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[node] == nil {
		l.last[node] = map[uint64]raft.Log{}
	}
	e.Data = slices.Clone(e.Data)
	l.last[node][e.Index] = e
}

// committed is the entry at an index that a majority holds.
func (l *ledger) committed(index uint64) (raft.Log, bool) {
	for i := range l.last {
		e, ok := l.last[i][index]
		held := 0
		for j := range l.last {
			if other, there := l.last[j][index]; there && other.Term == e.Term {
				held++
			}
		}
		if ok && held > nodes/2 {
			return e, true
		}
	}
	return raft.Log{}, false
}

// witness writes down what a node's journal stores.
type witness struct {
	*power.Journal
	ledger *ledger
	node   int
}

// newWitness notes first what an earlier run stored without having come to say so.
func newWitness(j *power.Journal, l *ledger, node int) (witness, error) {
	first, _ := j.FirstIndex()
	last, _ := j.LastIndex()
	for i := first; i <= last && i > 0; i++ {
		var e raft.Log
		switch err := j.GetLog(i, &e); {
		case errors.Is(err, raft.ErrLogNotFound):
		case err != nil:
			return witness{}, err
		default:
			l.note(node, e)
		}
	}
	return witness{j, l, node}, nil
}

// StoreLog implements raft.LogStore.
func (w witness) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (w witness) StoreLogs(logs []*raft.Log) error {
	if err := w.Journal.StoreLogs(logs); err != nil {
		return err
	}
	for _, l := range logs {
		w.ledger.note(w.node, *l)
	}
	return nil
}

// replay runs the log up to an index through the model and compares: the stream
// must be the model's to the byte, and each answer one that the model gave.
func (l *ledger) replay(applied uint64, h *history.History, stream []history.Message) []check.Finding {
	var s model.State
	outcomes := map[string][]model.Outcome{} // of a unit, by the body of its first message
	for index := uint64(1); index <= applied; index++ {
		e, ok := l.committed(index)
		if !ok {
			return []check.Finding{{Check: "no-majority", Text: fmt.Sprintf("applied up to %d, no majority holds index %d", applied, index)}}
		}
		if e.Type != raft.LogCommand {
			continue
		}
		if err := step(&s, e.Data, outcomes); err != nil {
			return []check.Finding{{Check: "bad-entry", Text: fmt.Sprintf("index %d: %v", index, err)}}
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
