package client

import (
	"errors"
	"fmt"

	"chorale/client/nodes"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What went wrong, by what a program can do about it. Every error of this package
// wraps one of these (test with errors.Is), or is a *ConditionError or a
// *ViolationError, or the error of a context that ended.
var (
	// ErrInvalid is returned when a name, a filter, a message or an option breaks a
	// rule. Nothing was stored; the same again cannot help.
	ErrInvalid = errors.New("invalid")
	// ErrUncertain is the outcome of a message that was sent and not answered before
	// its publisher ended: it may be stored or not. The same of a change of members.
	ErrUncertain = errors.New("outcome unknown")
	// ErrUnpublished is the outcome of a message that is certainly not stored because
	// its publisher ended before it could be sent.
	ErrUnpublished = errors.New("not published")
	// ErrProducer is returned when the cluster knows less of a producer than its
	// publisher does: its numbers do not continue what was stored, or it was idle
	// for so long that it is forgotten.
	ErrProducer = errors.New("producer state differs")
	// ErrUnavailable is returned when no node answered as it should.
	ErrUnavailable = errors.New("no node available")
	// ErrMissing is the ErrUnavailable of a node that lacks a data file, for now at least.
	ErrMissing = fmt.Errorf("%w for want of a data file", ErrUnavailable)
	// ErrOutOfRange is returned when a start lies beyond the end of the stream.
	ErrOutOfRange = errors.New("start beyond the end of the stream")
	// ErrGone is returned when a start lies before the oldest kept message.
	ErrGone = errors.New("start before the oldest kept message")
	// ErrOtherCluster is returned when a node belongs to another cluster than the
	// resume position, or than the node before it.
	ErrOtherCluster = errors.New("another cluster")
	// ErrRefused is returned when the cluster does not do what was asked; the text says why.
	ErrRefused = errors.New("refused")
	// ErrRulesChanged is the ErrRefused of a change to rules that are others by now.
	ErrRulesChanged = fmt.Errorf("%w: somebody else changed the rules", ErrRefused)
	// ErrDenied is returned when the credentials do not allow the call.
	ErrDenied = errors.New("denied")
	// ErrClosed is returned by calls on what has been closed.
	ErrClosed = errors.New("closed")
)

// ConditionError is the outcome of a unit one of whose conditions did not hold.
// Nothing of the unit was stored, and a retry is answered the same.
type ConditionError struct {
	// Index is the place within the unit of the message with the condition.
	Index int
	// LastSeq is the last seq of that message's topic; 0 if it does not exist.
	LastSeq uint64
}

// Error says what the topic's last seq is.
func (e *ConditionError) Error() string {
	return fmt.Sprintf("condition failed: the last seq of the topic of message %d of the unit is %d", e.Index, e.LastSeq)
}

// ViolationError says that what a node delivered cannot be what the cluster
// stored, or is not all of it. The subscription ends with it. Nothing of the
// response that broke the rule was handed out, so resuming at Position, from
// another node, neither loses nor repeats anything.
type ViolationError struct {
	// Node is the address of the node that delivered.
	Node string
	// Position is the last one that was verified.
	Position Position
	// Seq is the message that shows the violation; 0 if none does.
	Seq uint64
	// Reason says what should have been and what was.
	Reason string
	// Err is the finding of a checksum, or nil.
	Err error
}

// Error says which node broke what promise, and where.
func (e *ViolationError) Error() string {
	return fmt.Sprintf("violation by node %s behind seq %d: %s", e.Node, e.Position.Seq, e.Reason)
}

// Unwrap makes errors.Is find message.ErrCorrupt.
func (e *ViolationError) Unwrap() error { return e.Err }

// invalid is an error that says by itself what is invalid, and is ErrInvalid.
type invalid struct{ error }

// Is makes errors.Is find ErrInvalid.
func (invalid) Is(target error) bool { return target == ErrInvalid }

// Unwrap is the error itself.
func (i invalid) Unwrap() error { return i.error }

// nodeError is what was wrong with a node, without the node's address.
type nodeError struct {
	kind      error
	text      string
	unreached bool
}

// Unreached implements waits.Unreached.
func (e *nodeError) Unreached() bool { return e.unreached }

// Error is what the node said, or what it did.
func (e *nodeError) Error() string { return e.text }

// Unwrap is one of the errors of this package.
func (e *nodeError) Unwrap() error { return e.kind }

// at is the whole error, for someone who does not see beside it of which node it is.
func (e *nodeError) at(address string) error {
	switch e.kind {
	case ErrInvalid, ErrOutOfRange, ErrGone: // the node's words say it already
		return &nodeError{kind: e.kind, text: "node " + address + ": " + e.text}
	}
	return fmt.Errorf("%w: node %s: %s", e.kind, address, e.text)
}

// callError is the error of a gRPC call to a node, and whether another node may do
// better.
func callError(address string, err error) (wrapped error, retry bool) {
	e, retry := refusal(err)
	return e.at(address), retry
}

// refusal is callError without the address.
func refusal(err error) (e *nodeError, retry bool) {
	kind, retry := ErrUnavailable, true
	switch status.Code(err) {
	case codes.Unavailable:
		if nodes.Reason(err) == "MISSING_FILE" {
			kind = ErrMissing
		}
	case codes.InvalidArgument:
		kind, retry = ErrInvalid, false
	case codes.OutOfRange:
		kind = ErrOutOfRange
		if nodes.Reason(err) == "EXPIRED" {
			kind, retry = ErrGone, false
		}
	case codes.FailedPrecondition, codes.NotFound:
		switch kind, retry = ErrRefused, false; nodes.Reason(err) {
		case "OTHER_CLUSTER":
			kind = ErrOtherCluster
		case "RULES_CHANGED":
			kind = ErrRulesChanged
		}
	case codes.Aborted:
		kind, retry = ErrUncertain, false
	case codes.Unauthenticated, codes.PermissionDenied:
		kind, retry = ErrDenied, false
	}
	return &nodeError{kind, nodes.Text(err), kind == ErrUnavailable && nodes.Unreached(err)}, retry
}
