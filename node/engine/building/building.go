// Package building is what a node knows of the plans that it builds: which range it is
// at, what became of the newest one, and how fast it may go.
package building

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"chorale/segments"
)

// State is what this node makes of plans. Safe for concurrent use.
type State struct {
	mu          sync.Mutex
	first, last uint64 // the range that is being built; 0, 0 for none
	result      Result
	changed     chan struct{} // closed when any of these has changed
}

// Result is what became of the newest plan that this node was done with.
type Result struct {
	Plan   uint64 // its index, 0 before the first
	Files  []segments.FileMeta
	Failed error // not the disk's: the plan should be abandoned
}

// Sum tells the result from every other one of the plan; zero if it could not be built.
func (r Result) Sum() (sum segments.Hash) {
	if r.Failed != nil {
		return sum
	}
	h := sha256.New()
	for _, f := range r.Files {
		_, _ = h.Write(f.Hash[:])
	}
	return segments.Hash(h.Sum(nil))
}

// Outputs is the range for which a plan with these inputs makes stores; 0, 0 without
// inputs, and where the manifest has others.
func Outputs(m segments.Manifest, inputs []segments.Hash) (first, last uint64) {
	if len(inputs) == 0 {
		return 0, 0
	}
	for _, f := range m.Files {
		if f.Hash == inputs[0] {
			first = f.First
		}
		if f.Hash == inputs[len(inputs)-1] {
			last = f.Last
		}
	}
	return first, last
}

// New is the state before any plan.
func New() *State { return &State{changed: make(chan struct{})} }

func (c *State) change(edit func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Begin notes the range for which stores are being built.
func (c *State) Begin(first, last uint64) { c.change(func() { c.first, c.last = first, last }) }

// End notes that nothing is being built.
func (c *State) End() { c.Begin(0, 0) }

// Set notes what became of a plan.
func (c *State) Set(r Result) { c.change(func() { c.result = r }) }

// Newest is the newest result; the channel is closed when it may have changed.
func (c *State) Newest() (Result, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result, c.changed
}

// Makes reports whether the file is one that this node is about to make itself.
func (c *State) Makes(m segments.FileMeta) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.Kind == segments.KindStore && m.First == c.first && m.Last == c.last
}

// Pacer lets so many bytes pass in a second. For one goroutine.
type Pacer struct {
	rate int64
	due  time.Time // when all that passed has passed at the rate
}

// NewPacer paces by a rate in bytes a second.
func NewPacer(rate int64) *Pacer { return &Pacer{rate: rate} }

// Wait implements compactor.Pace.
func (p *Pacer) Wait(ctx context.Context, bytes int64) error {
	now := time.Now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	t := time.NewTimer(p.due.Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
