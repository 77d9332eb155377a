package client

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
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
	// its publisher ended: it may be stored or not.
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
	// ErrOutOfRange is returned when a start lies beyond the end of the stream.
	ErrOutOfRange = errors.New("start beyond the end of the stream")
	// ErrGone is returned when a start lies before the oldest kept message.
	ErrGone = errors.New("start before the oldest kept message")
	// ErrOtherCluster is returned when a node belongs to another cluster than the
	// resume position, or than the node before it.
	ErrOtherCluster = errors.New("another cluster")
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

// callError is the error of a gRPC call to a node, and whether another node may do
// better.
func callError(address string, err error) (wrapped error, retry bool) {
	kind, retry := ErrUnavailable, true
	switch status.Code(err) {
	case codes.InvalidArgument:
		kind, retry = ErrInvalid, false
	case codes.OutOfRange:
		kind = ErrOutOfRange
		if reason(err) == "EXPIRED" {
			kind, retry = ErrGone, false
		}
	case codes.FailedPrecondition:
		kind, retry = ErrOtherCluster, false
	case codes.Unauthenticated, codes.PermissionDenied:
		kind, retry = ErrDenied, false
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = fmt.Sprintf("%s (%s)", s.Message(), s.Code())
	}
	return fmt.Errorf("%w: node %s: %s", kind, address, text), retry
}

// reason is what the node's error info says beside the code; "" without one.
func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}
