// Package tip holds the newest part of the stream in memory: a ring of records,
// for each topic partition an index of where its messages lie, and readers that
// are woken. One goroutine writes and waits for nobody; readers take no lock and
// hold back nothing.
package tip

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"chorale/message"
	"chorale/topic"
)

// ErrEvicted is returned by a reader whose next message has left the ring: it
// goes on in the history, and may come back to the tip later.
var ErrEvicted = errors.New("the position has left the tip")

// MinBytes and MaxBytes bound the ring.
const (
	MinBytes = 4 << 10
	MaxBytes = 1 << 40
)

// Tip is the ring with its partition indexes. One goroutine writes (Append,
// Publish, Reset, Become); any number read.
type Tip struct{ held atomic.Pointer[held] }

// New makes a tip whose ring holds that many bytes of records, MinBytes to
// MaxBytes. Memory is taken as the ring fills for the first time. The first
// message to be appended has seq 1, unless Reset says otherwise.
func New(bytes int64) *Tip {
	if bytes < MinBytes || bytes > MaxBytes {
		panic(fmt.Sprintf("tip: a ring of %d bytes; %d to %d are allowed", bytes, MinBytes, int64(MaxBytes)))
	}
	t := &Tip{}
	t.held.Store(newHeld(bytes))
	return t
}

func (t *Tip) now() *held { return t.held.Load() }

// Append copies a stamped record behind the newest one. Its seq is exactly one
// more than the last, or the first one after New or Reset. Readers see it after
// Publish.
func (t *Tip) Append(partition uint32, r message.Record) { t.now().append(partition, r) }

// Publish makes everything appended visible and wakes who waits.
func (t *Tip) Publish() { t.now().publish() }

// Reset empties the tip; the next message to be appended has seq next.
func (t *Tip) Reset(next uint64) { t.now().reset(next) }

// Become takes over what another tip holds, which is not used any more; what this one held
// is gone. Its readers find that their place has left the ring, and come back. It reports
// whether that was possible: both have published what was appended, up to the same seq.
func (t *Tip) Become(other *Tip) bool {
	old, fuller := t.now(), other.now()
	if old.nextSeq != fuller.nextSeq || t.Head()+1 != old.nextSeq || other.Head()+1 != old.nextSeq {
		return false
	}
	t.held.Store(fuller)
	old.retired.Store(true)
	old.wake()
	return true
}

// NewReader starts behind seq after. The reader and the selection belong to the
// same goroutine.
func (t *Tip) NewReader(sel *topic.Selection, after uint64) *Reader {
	return &Reader{of: t, tip: t.now(), sel: sel, scanned: after, plan: plan{density: unknown}}
}

// Floor is the oldest seq held; Head+1 if nothing is held. Any goroutine.
func (t *Tip) Floor() uint64 { return t.now().floorSeq.Load() }

// Head is the newest visible seq; 0 before the first. Any goroutine.
func (t *Tip) Head() uint64 { return t.now().headEnd.Load() }

// Wait returns nil once Head() > after, or the context's error. Any goroutine.
func (t *Tip) Wait(ctx context.Context, after uint64) error {
	for t.Head() <= after {
		h := t.now()
		if err := h.wait(ctx, after, func() bool { return t.now() != h }); err != nil {
			return err
		}
	}
	return nil
}

// Stats is the state of ring and pool.
type Stats struct {
	Floor, Head        uint64
	Bytes, Capacity    int64
	Blocks, FreeBlocks int // of the pool, of 1024 entries of 8 bytes each
	HighWater          int // most blocks ever in use
	Partitions         int // partitions with at least one message in the ring
}

// Stats may be called by any goroutine.
func (t *Tip) Stats() Stats { return t.now().stats() }
