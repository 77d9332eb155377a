// Package turns keeps recoveries from taking the processor away from publishers: while
// messages are published, readers that read much do so in turn.
package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// active is for how long a new message says that messages are published: longer than a
	// publisher that waits for each answer is held up by the readers themselves, or they would
	// read without turns just then. Not much longer: behind the last message recoveries are
	// slowed down for nobody.
	active = 250 * time.Millisecond
	// patience is how long a reader waits for a turn before it reads without one: its client
	// counts on hearing something every api.ProgressInterval. lease is how long it may keep
	// the turn: a client that takes nothing, and a disk that stalls under one reader, do not
	// stop the others.
	patience = time.Second
	lease    = 20 * time.Millisecond

	// probe is a sleep; whoever wakes from it later than lateLimit has waited for a
	// processor, as those did who publish.
	probe     = time.Millisecond
	lateLimit = 500 * time.Microsecond
	// The pause behind a turn is so many times as long as the turn, at most. It grows faster
	// than it shrinks, so that one sleeper in twenty wakes late: where publishing alone keeps
	// a machine busy, hardly fewer do.
	pauseMost            = 10.0
	pauseGrow, pauseFade = 1.0, 0.05
)

// turnBytes is how much a reader should read in a turn: what is read at once, here and by
// its client, is what others wait for.
const turnBytes = 64 << 10

// Turns are the turns of one node. Safe for concurrent use.
type Turns struct {
	slots   chan struct{}       // a token for each turn that may be taken
	waited  func(time.Duration) // see New
	lease   time.Duration
	sleep   func(time.Duration)
	waiting atomic.Int64

	end   atomic.Uint64 // newest seq that was seen
	since atomic.Int64  // when it was seen first, a Duration since begun
	begun time.Time     // so that nobody minds a clock that is set

	probing atomic.Bool
	mu      sync.Mutex
	pause   float64 // in turns: 0 to pauseMost; at 0 nobody needs a turn
}

// New makes the turns of a process that may use so many processors: half of them at a
// time, one at least. waited is told how long each reader waited that was to read in turn,
// also one that came at once, and one that got none; it is called by several at a time.
func New(processors int, waited func(time.Duration)) *Turns {
	t := &Turns{slots: make(chan struct{}, max(processors/2, 1)), waited: waited, lease: lease, sleep: sleep, begun: time.Now()}
	for range cap(t.slots) {
		t.slots <- struct{}{}
	}
	return t
}

// Busy are the turns of a machine on which sleepers always wake late, for tests: everybody
// takes turns while messages are published. The pauses are too short to be noticed, and
// who does not give its turn back keeps it.
func Busy(processors int, waited func(time.Duration)) *Turns {
	t := New(processors, waited)
	t.pause, t.lease = 1e-9, time.Hour
	t.probing.Store(true)
	return t
}

// Waiting is how many readers wait for a turn now.
func (t *Turns) Waiting() int { return int(t.waiting.Load()) }

// Turn is a turn that was taken, or none came; the zero value is that none was needed.
type Turn struct {
	turns *Turns
	begun time.Time
	lease *time.Timer // gives the slot back if it is not stopped
	none  bool        // none came in time
}

// Limit is how many bytes to read, of so many at most.
func (u Turn) Limit(most int) int {
	if u.turns != nil || u.none {
		return min(most, turnBytes)
	}
	return most
}

// Take waits for a turn if messages are published, the newest of which this node has is
// end, and sleepers wake late. If not, and if none comes in time, it returns without one.
func (t *Turns) Take(ctx context.Context, end uint64) Turn {
	now := time.Now()
	age := now.Sub(t.begun)
	if t.end.Swap(end) != end {
		t.since.Store(int64(age))
	}
	if age-time.Duration(t.since.Load()) > active {
		return Turn{}
	}
	t.probe()
	if t.Pause() == 0 {
		return Turn{}
	}
	t.waiting.Add(1)
	defer func() {
		t.waiting.Add(-1)
		t.waited(time.Since(now))
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-t.slots:
		return Turn{turns: t, begun: time.Now(), lease: time.AfterFunc(t.lease, t.free)}
	case <-limit.C:
	case <-ctx.Done():
	}
	return Turn{none: true}
}

func (t *Turns) free() { t.slots <- struct{}{} }

// probe finds out how late a sleeper wakes, unless that is being found out already.
func (t *Turns) probe() {
	if !t.probing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		due := time.Now().Add(probe)
		t.sleep(probe)
		t.woke(time.Since(due))
		t.probing.Store(false)
	}()
}

// woke makes pauses longer or shorter.
func (t *Turns) woke(late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if late > lateLimit {
		t.pause = min(t.pause+pauseGrow, pauseMost)
	} else {
		t.pause = max(t.pause-pauseFade, 0)
	}
}

// Pause is how long the pause behind a turn is, in turns; 0 where nobody reads in turn.
func (t *Turns) Pause() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pause
}

// Give ends the turn. Its slot is free behind the pause; the caller does not wait for that.
func (u Turn) Give() {
	if u.turns == nil || !u.lease.Stop() {
		return
	}
	pause := time.Duration(u.turns.Pause() * float64(time.Since(u.begun)))
	if pause == 0 {
		u.turns.free()
		return
	}
	time.AfterFunc(pause, u.turns.free)
}
