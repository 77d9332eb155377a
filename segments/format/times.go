package format

import (
	"encoding/binary"
	"fmt"
)

// The time table lists the runs of messages with equal time, in the order of the
// stream, each as
//
//	uvarint  messages
//	uvarint  their time - time of the run before (of the first: - the file's first)
//
// All messages of a log entry have one time, so a run is at least an entry.

// Times builds a time table. The zero value is ready.
type Times struct {
	table  []byte
	first  bool  // was seen
	before int64 // time of the run before, or of the first message
	now    int64 // time of the run that grows
	count  uint64
}

// Add takes the next message's time, in the order of the stream.
func (r *Times) Add(t int64) {
	if !r.first {
		r.first, r.before, r.now = true, t, t
	}
	if t != r.now {
		r.end()
		r.now = t
	}
	r.count++
}

func (r *Times) end() {
	r.table = binary.AppendUvarint(r.table, r.count)
	r.table = binary.AppendUvarint(r.table, uint64(r.now-r.before))
	r.before, r.count = r.now, 0
}

// Table returns the table. Nothing can be added afterwards.
func (r *Times) Table() []byte {
	if r.count > 0 {
		r.end()
	}
	return r.table
}

// seekTime checks the whole table and returns the last seq before the first
// message of time t or later; the file's last seq if there is none.
func seekTime(b []byte, h Header, t int64) (after uint64, err error) {
	seq, now, runs := h.First-1, h.FirstTime, 0
	after = h.Last
	for ; len(b) > 0; runs++ {
		var f [2]uint64
		var ok bool
		if b, ok = takeUvarints(b, f[:]); !ok || f[0] == 0 || f[0] > h.Last-seq || f[1] > uint64(h.LastTime-now) || f[1] == 0 != (runs == 0) {
			return 0, fmt.Errorf("%w: time table behind seq %d", ErrCorrupt, seq)
		}
		if now += int64(f[1]); now >= t {
			after = min(after, seq)
		}
		seq += f[0]
	}
	if seq != h.Last || now != h.LastTime {
		return 0, fmt.Errorf("%w: time table ends at seq %d, time %d, want %d and %d", ErrCorrupt, seq, now, h.Last, h.LastTime)
	}
	return after, nil
}
