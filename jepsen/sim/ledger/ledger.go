// Package ledger knows what a simulated cluster has committed, from what its nodes
// stored in their logs, and what the stream must therefore be.
package ledger

import (
	"errors"
	"slices"
	"sync"

	"chorale/jepsen/sim/power"

	"github.com/hashicorp/raft"
)

// Ledger remembers, for each node, what it durably stored last at each index of the
// log. A committed entry is one that a majority holds there: no node that has it
// ever stores another in its place, and what is not committed is never the last of
// more than a minority where another is. Safe for concurrent use.
type Ledger struct {
	mu   sync.Mutex
	last []map[uint64]raft.Log // by node, then index
}

// New is a ledger that has seen nothing.
func New(nodes int) *Ledger {
	l := new(Ledger)
	for range nodes {
		l.last = append(l.last, map[uint64]raft.Log{})
	}
	return l
}

func (l *Ledger) note(node int, e raft.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Data = slices.Clone(e.Data)
	l.last[node][e.Index] = e
}

// committed is the entry at an index that a majority holds.
func (l *Ledger) committed(index uint64) (raft.Log, bool) {
	for i := range l.last {
		e, ok := l.last[i][index]
		held := 0
		for j := range l.last {
			if other, there := l.last[j][index]; there && other.Term == e.Term {
				held++
			}
		}
		if ok && held > len(l.last)/2 {
			return e, true
		}
	}
	return raft.Log{}, false
}

// Witness writes down what a node's journal stores.
type Witness struct {
	*power.Journal
	ledger *Ledger
	node   int
}

// Witness is the journal of a node, which notes first what an earlier run stored without having come to say so.
func (l *Ledger) Witness(j *power.Journal, node int) (Witness, error) {
	first, _ := j.FirstIndex()
	last, _ := j.LastIndex()
	for i := first; i <= last && i > 0; i++ {
		var e raft.Log
		switch err := j.GetLog(i, &e); {
		case errors.Is(err, raft.ErrLogNotFound):
		case err != nil:
			return Witness{}, err
		default:
			l.note(node, e)
		}
	}
	return Witness{j, l, node}, nil
}

// StoreLog implements raft.LogStore.
func (w Witness) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (w Witness) StoreLogs(logs []*raft.Log) error {
	if err := w.Journal.StoreLogs(logs); err != nil {
		return err
	}
	for _, l := range logs {
		w.ledger.note(w.node, *l)
	}
	return nil
}
