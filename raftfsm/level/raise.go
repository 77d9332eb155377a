package level

import (
	"errors"
	"fmt"
)

// ErrNewer marks what a newer version wrote.
var ErrNewer = errors.New("written by a newer version: upgrade this node")

// ErrBytes marks bytes that raise nothing.
var ErrBytes = errors.New("bad bytes")

// MaxVersionBytes bounds the text of a version that others are told.
const MaxVersionBytes = 64

// Version is the text of a version as others are told it.
func Version(text string) string { return text[:min(len(text), MaxVersionBytes)] }

// Mark is the level of a log. The zero value is that of a log that has none.
type Mark struct {
	Level Level
	// By is a version of the program that understands it, for messages.
	By string
}

// A mark is
//
//	0  1  level, at least Logged
//	1  1  bytes of the version
//	2  6  zero
//	8     the version
const (
	markHeadBytes = 8
	// MaxMarkBytes bounds what Append makes of a Mark.
	MaxMarkBytes = markHeadBytes + MaxVersionBytes
)

// Append appends the mark's bytes.
func (m Mark) Append(b []byte) []byte {
	by := Version(m.By)
	b = append(b, byte(m.Level), byte(len(by)), 0, 0, 0, 0, 0, 0)
	return append(b, by...)
}

// DecodeMark reads what Append wrote, or returns an error that wraps ErrBytes.
func DecodeMark(b []byte) (Mark, error) {
	if len(b) < markHeadBytes || Level(b[0]) < Logged || b[1] > MaxVersionBytes || len(b) != markHeadBytes+int(b[1]) || [6]byte(b[2:8]) != [6]byte{} {
		return Mark{}, fmt.Errorf("%w: a level of %d bytes", ErrBytes, len(b))
	}
	return Mark{Level(b[0]), string(b[markHeadBytes:])}, nil
}

// Check returns an *Error if a build does not read the level of a log. Of one without a
// level it sees only when it comes to a command.
func (m Mark) Check(own Range) error {
	if m.Level == 0 || own.Has(m.Level) {
		return nil
	}
	return &Error{m, own}
}

// Error is why a build cannot go on with a log.
type Error struct {
	Mark
	Own Range
}

// Error says what to do.
func (e *Error) Error() string {
	if e.Level < e.Own.Lowest {
		return fmt.Sprintf("the cluster's log is at level %d, and this build reads levels %v: start a version on this folder that reads both, until all members run one like it and the level has risen; nothing is lost", e.Level, e.Own)
	}
	by := ""
	if e.By != "" {
		by = fmt.Sprintf(" (%s or a later version)", e.By)
	}
	return fmt.Sprintf("the cluster's log is at level %d, and this build reads levels %v: upgrade this node%s; nothing is lost, and it goes on where it was", e.Level, e.Own, by)
}

// Unwrap lets who looks for ErrNewer find it.
func (e *Error) Unwrap() error {
	if e.Level < e.Own.Lowest {
		return nil
	}
	return ErrNewer
}
