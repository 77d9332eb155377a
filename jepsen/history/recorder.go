package history

import "sync"

// Recorder writes a history down while it happens. Safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	clock uint64
	h     History
}

func (r *Recorder) tick() uint64 {
	r.clock++
	return r.clock
}

// Unit notes what a publisher will try to store and returns its number.
func (r *Recorder) Unit(u Unit) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Units = append(r.h.Units, u)
	return len(r.h.Units) - 1
}

// Invoke notes that a unit is being sent to a node and returns the attempt's
// number. Until Answer the result is Unknown.
func (r *Recorder) Invoke(unit int, node string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Attempts = append(r.h.Attempts, Attempt{Unit: unit, Node: node, Invoke: r.tick(), Result: Unknown})
	return len(r.h.Attempts) - 1
}

// Answer notes what the publisher was told; of a only Result, Seq, Index and Error
// are taken.
func (r *Recorder) Answer(attempt int, a Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.h.Attempts[attempt]
	if e.Return != 0 {
		panic("an attempt was answered twice")
	}
	e.Return, e.Result, e.Seq, e.Index, e.Error = r.tick(), a.Result, a.Seq, a.Index, a.Error
}

// Read notes a finished session of a reader.
func (r *Recorder) Read(s Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Reads = append(r.h.Reads, s)
}

// Fault notes something done to the cluster at that time.
func (r *Recorder) Fault(time int64, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Faults = append(r.h.Faults, Fault{At: r.tick(), Time: time, Text: text})
}

// History is what was recorded. It is not a copy: whoever reads it records nothing
// meanwhile.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.h
}
