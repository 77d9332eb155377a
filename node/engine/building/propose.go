package building

import (
	"errors"

	"chorale/compactor"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
)

// Propose has put bring a plan into the log: one without chapters as long as a member does
// not read stores that have them. Its error is that of put.
func Propose(p compactor.Plan, put func(entry []byte) (raftfsm.Result, error)) (raftfsm.Result, error) {
	result, err := put(raftfsm.EncodePlan(raftfsm.Plan(p)))
	if refused := (*roster.Refusal)(nil); errors.As(err, &refused) && p.Chapter > 0 {
		p.Chapter = 0
		return put(raftfsm.EncodePlan(raftfsm.Plan(p)))
	}
	return result, err
}
