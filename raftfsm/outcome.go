package raftfsm

import "chorale/raftfsm/outcome"

// Outcome is what became of one or more consecutive units of a batch, OutcomeKind which
// of the kinds it is.
type (
	Outcome     = outcome.Outcome
	OutcomeKind = outcome.Kind
)

// The kinds.
const (
	Stored             = outcome.Stored
	Duplicate          = outcome.Duplicate
	DuplicateForgotten = outcome.DuplicateForgotten
	ConditionFailed    = outcome.ConditionFailed
	NumberGap          = outcome.NumberGap
	ProducerUnknown    = outcome.ProducerUnknown
)
