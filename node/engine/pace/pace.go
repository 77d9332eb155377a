// Package pace knows how fast a node reads for its subscribers: what an estimate of
// time rests on.
package pace

import (
	"sync"
	"time"
)

const (
	// filesRate and memoryRate count until a node has measured its own, in bytes a
	// second: recovery of everything from stores in the page cache, rounded down, and
	// about half of a recovery of 0.1 % from a cold tip, as docs/benchmarks.md has them.
	filesRate  = 400 << 20
	memoryRate = 1 << 30
	// enough bytes make a measurement, fade is how many are remembered, about.
	enough = 16 << 20
	fade   = 4 << 30
	// leastFromMemory keeps single live messages, whose time is that of a call, out.
	leastFromMemory = 32 << 10
)

// Rate is how fast something is read.
type Rate struct {
	BytesPerSecond float64
	Measured       bool // by this node; else it is what another machine did
}

// Time is how long so many bytes take.
func (r Rate) Time(bytes uint64) time.Duration {
	return time.Duration(float64(bytes) / r.BytesPerSecond * float64(time.Second))
}

// Pace sums up what reads took. The zero value has seen none. Safe for concurrent use.
type Pace struct {
	mu            sync.Mutex
	files, memory sum
}

type sum struct {
	bytes float64
	took  time.Duration
}

// Files notes a read that looked through so many bytes of files: tables, and records
// whether they were wanted or not.
func (p *Pace) Files(looked int64, took time.Duration) { p.add(&p.files, looked, took) }

// Memory notes a read that delivered so many bytes from memory.
func (p *Pace) Memory(delivered int64, took time.Duration) {
	if delivered >= leastFromMemory {
		p.add(&p.memory, delivered, took)
	}
}

func (p *Pace) add(s *sum, bytes int64, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.bytes += float64(bytes)
	s.took += took
	if s.bytes > 2*fade {
		s.bytes, s.took = s.bytes/2, s.took/2
	}
}

// Rates are of bytes of files that are looked through, and of bytes that are delivered
// from memory; neither counts what network and client take.
func (p *Pace) Rates() (files, memory Rate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.files.rate(filesRate), p.memory.rate(memoryRate)
}

func (s sum) rate(otherwise float64) Rate {
	if s.bytes < enough || s.took <= 0 {
		return Rate{BytesPerSecond: otherwise}
	}
	return Rate{s.bytes / s.took.Seconds(), true}
}
