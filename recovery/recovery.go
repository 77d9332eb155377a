// Package recovery moves one cursor without gap or repeat from the history to the
// tip to the live end, and back when the tip has moved on.
package recovery

import (
	"context"
	"errors"

	"chorale/message"
	"chorale/retention"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"
)

// Source is where cursors read. Both parts hold the same stream: what the tip
// publishes, the history has published before, so that
//
//	Tip.Floor() <= History.End()+1
type Source struct {
	History *segments.Log
	Tip     *tip.Tip
	Topics  *topic.Table
	// Floors are what has gone of subtrees; nil delivers what there is. They are not behind
	// what either part has published.
	Floors func() *retention.Floors
}

// Cursor delivers the messages of a set of filters in order. For one goroutine.
//
// It holds a reader of the part that it is in, and no other. Either part answers
// how far it has scanned, so that a change of parts is nothing but a new reader
// behind that position.
type Cursor struct {
	source  Source
	filters *topic.Filters
	sel     *topic.Selection
	sieve   sieve
	told    map[string]uint64 // floors that News has given, by filter
	news    []retention.Floor
	asked   *retention.Floors // by which oldest was found: the oldest that may be wanted
	oldest  uint64
	pos     uint64
	looked  int64            // of readers that were let go
	history *segments.Reader // while in the history
	tip     *tip.Reader      // while in the tip
}

// NewCursor starts behind seq after.
func NewCursor(s Source, f *topic.Filters, after uint64) *Cursor {
	return &Cursor{source: s, filters: f, sel: topic.NewSelection(s.Topics, f), sieve: sieve{topics: s.Topics}, pos: after}
}

// Next appends padded records to dst, up to limit bytes. It returns at once if
// there is something to deliver or a stretch without a wanted message was passed;
// at the live end it waits until there is news or ctx ends. What lies below a floor is left
// out, whatever part it is in. Errors are those of the history, of which ErrExpired is also
// for a cursor that floors have overtaken, and the context's; Progress and dst are valid
// with each.
func (c *Cursor) Next(ctx context.Context, dst []byte, limit int) ([]byte, message.Progress, error) {
	for {
		before, start := c.pos, len(dst)
		if err := c.overtaken(); err != nil {
			return dst, message.Progress{Scanned: c.pos}, err
		}
		dst, p, err := c.read(dst, limit)
		// Of now: a floor comes before the edit that removes what is below it.
		c.sieve.take(c.source.floors())
		dst, p.Count = c.sieve.sift(dst, start, p.Count, before)
		c.passed(before)
		if err != nil || c.pos > before {
			return dst, p, err
		}
		// Nothing is known to be readable behind the position: either this is the
		// live end, or the position has just left the tip, or the state machine is
		// between the two publications. In all but the first Wait returns at once.
		if err := c.source.Tip.Wait(ctx, c.pos); err != nil {
			return dst, p, err
		}
		if err := ctx.Err(); err != nil {
			return dst, p, err
		}
	}
}

// read reads once from the part that holds the next message.
func (c *Cursor) read(dst []byte, limit int) ([]byte, message.Progress, error) {
	if c.pos+1 < c.source.Tip.Floor() {
		return c.readHistory(dst, limit)
	}
	return c.readTip(dst, limit)
}

func (c *Cursor) readHistory(dst []byte, limit int) ([]byte, message.Progress, error) {
	c.tip = nil
	if c.history == nil {
		c.history = c.source.History.NewReader(c.sel, c.pos)
	}
	dst, p, err := c.history.Read(dst, limit)
	c.pos = p.Scanned
	return dst, p, err
}

func (c *Cursor) readTip(dst []byte, limit int) ([]byte, message.Progress, error) {
	c.leaveHistory()
	if c.tip == nil {
		c.tip = c.source.Tip.NewReader(c.sel, c.pos)
	}
	dst, p, err := c.tip.Read(dst, limit)
	c.pos = p.Scanned
	if errors.Is(err, tip.ErrEvicted) {
		c.tip, err = nil, nil
	}
	return dst, p, err
}

func (c *Cursor) leaveHistory() {
	if c.history != nil {
		c.looked += c.history.BytesLooked()
		c.history.Close()
		c.history = nil
	}
}

// InHistory reports whether the last read was from the history.
func (c *Cursor) InHistory() bool { return c.history != nil }

// BytesLooked is how many bytes of files it has looked through; see segments.Reader.
func (c *Cursor) BytesLooked() int64 {
	if c.history != nil {
		return c.looked + c.history.BytesLooked()
	}
	return c.looked
}

// Position is the last seq considered: the resume position.
func (c *Cursor) Position() uint64 { return c.pos }

// Close releases what the cursor holds.
func (c *Cursor) Close() { c.leaveHistory() }
