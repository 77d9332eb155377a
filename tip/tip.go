// Package tip holds the newest part of the stream in memory.
package tip

import (
	"context"
	"errors"

	"chorale/message"
	"chorale/topic"
)

// ErrEvicted is returned by a reader whose next message has left the ring: it
// goes on in the history, and may come back to the tip later.
var ErrEvicted = errors.New("the position has left the tip")

// Tip is the ring with its partition indexes. One goroutine writes (Append,
// Publish, Reset); any number read.
type Tip struct{}

// New makes a tip whose ring holds that many bytes of records.
func New(bytes int64) *Tip { panic("contract") }

// Append copies a stamped record behind the newest one. Its seq is exactly one
// more than the last, or the first one after New or Reset. Readers see it after
// Publish.
func (t *Tip) Append(partition uint32, r message.Record) { panic("contract") }

// Publish makes everything appended visible and wakes who waits.
func (t *Tip) Publish() { panic("contract") }

// Reset empties the tip; the next message to be appended has seq next.
func (t *Tip) Reset(next uint64) { panic("contract") }

// Floor is the oldest seq held; Head+1 if nothing is held. Any goroutine.
func (t *Tip) Floor() uint64 { panic("contract") }

// Head is the newest visible seq; 0 before the first. Any goroutine.
func (t *Tip) Head() uint64 { panic("contract") }

// Wait returns nil once Head() > after, or the context's error. Any goroutine.
func (t *Tip) Wait(ctx context.Context, after uint64) error { panic("contract") }

// Stats is the state of ring and pool.
type Stats struct {
	Floor, Head        uint64
	Bytes, Capacity    int64
	Blocks, FreeBlocks int // of the pool
	HighWater          int // most blocks ever in use
	Partitions         int // partitions with at least one message in the ring
}

// Stats may be called by any goroutine.
func (t *Tip) Stats() Stats { panic("contract") }

// Reader walks the wanted messages of the tip in order. For one goroutine.
type Reader struct{}

// NewReader starts behind seq after.
func (t *Tip) NewReader(sel *topic.Selection, after uint64) *Reader { panic("contract") }

// Read appends padded records of wanted messages to dst until limit bytes were
// appended (always at least one message if one is there) or the head is reached.
// It never blocks. ErrEvicted means that Scanned+1 is below the floor; what was
// appended before is valid and counted in Progress all the same.
func (r *Reader) Read(dst []byte, limit int) ([]byte, message.Progress, error) { panic("contract") }
