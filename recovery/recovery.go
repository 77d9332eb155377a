// Package recovery moves one cursor without gap or repeat from the history to the
// tip to the live end.
package recovery

import (
	"context"

	"chorale/message"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"
)

// Source is where cursors read.
type Source struct {
	History *segments.Log
	Tip     *tip.Tip
	Topics  *topic.Table
}

// Cursor delivers the messages of a set of filters in order. For one goroutine.
type Cursor struct{}

// NewCursor starts behind seq after.
func NewCursor(s Source, f *topic.Filters, after uint64) *Cursor { panic("contract") }

// Next appends padded records to dst, up to limit bytes. It returns at once if
// there is something to deliver or a stretch without a wanted message was passed;
// at the live end it waits until there is news or ctx ends. Errors are those of
// the history, and the context's.
func (c *Cursor) Next(ctx context.Context, dst []byte, limit int) ([]byte, message.Progress, error) {
	panic("contract")
}

// Position is the last seq considered: the resume position.
func (c *Cursor) Position() uint64 { panic("contract") }

// Close releases what the cursor holds.
func (c *Cursor) Close() { panic("contract") }
