package engine

import (
	"errors"
	"fmt"

	"chorale/message"
)

// What a submission or a subscription can end with. Everything else that done or
// Subscribe gives wraps one of these, or is an error of the history.
var (
	// ErrInvalid: the batch or the request breaks a rule; trying again cannot help.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: nothing was stored; another node, or this one a little later,
	// may do it.
	ErrUnavailable = errors.New("unavailable")
	// ErrNotLeader is the ErrUnavailable of SubmitLocal on a node that does not lead.
	ErrNotLeader    = fmt.Errorf("%w: this node does not lead", ErrUnavailable)
	errShuttingDown = fmt.Errorf("%w: this node is shutting down", ErrUnavailable)
	// ErrUnknown: the batch was handed to Raft and its fate is open. It may be
	// stored now, later or never; a retry under the same producer numbers finds out.
	ErrUnknown = errors.New("outcome unknown")
	// ErrOtherCluster: the resume position belongs to another cluster.
	ErrOtherCluster = errors.New("the position is of another cluster")
)

// BeyondEndError is the answer to a start position behind the end of the stream.
type BeyondEndError struct {
	After, End uint64
	// Final is true if this node led, and a majority agreed, when it looked: End is
	// the stream's. Otherwise End is how far this node has come.
	Final bool
}

// Error speaks of messages, as users count them: a start at N is the position N-1.
func (e *BeyondEndError) Error() string {
	if e.Final {
		return fmt.Sprintf("a start at message %d is beyond the end of the stream: the newest is %d, so at most %d is possible", e.After+1, e.End, e.End+1)
	}
	return fmt.Sprintf("message %d has not arrived on this node, which has come to %d", e.After, e.End)
}

// ExpiredError is the answer to a start position before the oldest kept message.
type ExpiredError struct{ After, Oldest uint64 }

// Error names both positions.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("message %d is older than the oldest kept message, which is %d", e.After+1, e.Oldest)
}

// PayloadError is why a batch is refused with a payload above the limit.
type PayloadError struct {
	Index        int // of the message in its batch
	Bytes, Limit int
}

// Error says what is allowed.
func (e *PayloadError) Error() string {
	return fmt.Sprintf("message %d of the batch: payload of %s: at most %s are allowed", e.Index, message.Size(e.Bytes), message.Size(e.Limit))
}
