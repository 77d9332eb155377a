// Package waits decides what a program is told while no node serves it: at once
// about every new reason, seldom about an old one, and when it is over. It starts
// no goroutine; only its timers call it from elsewhere.
package waits

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// Grace is how long a wait is before it is told: nobody waits for a node that
	// fails while the next one serves.
	Grace = 250 * time.Millisecond
	// Slow is how long a node may owe an answer before that is told.
	Slow = 2 * time.Second
	// Gap is the pause before a reason that is new in this wait, Again that before one
	// that was told.
	Gap   = time.Second
	Again = 5 * time.Second
	// Settle is how long a stream that says nothing must last to count as served.
	Settle = time.Second
	// maxReasons bounds the reasons that are remembered; further ones count as known.
	maxReasons = 32
)

// ErrSlow is the reason to wait for a node that accepts and does not answer.
var ErrSlow = errors.New("no answer yet")

// Wait is what a program is told of a wait.
type Wait struct {
	// Node is the address of the node that failed last, or that serves now; empty if
	// Err names it.
	Node string
	// Err is what was wrong with it, without its address; nil means that the wait is
	// over.
	Err error
	// Next is the address that is asked now.
	Next string
	// For is how long the program has been waiting.
	For time.Duration
}

// String is one line for a person.
func (w Wait) String() string {
	long := ""
	if w.For >= time.Second {
		long = " for " + w.For.Truncate(time.Second).String()
	}
	if w.Err == nil {
		at, after := "", ""
		if w.Node != "" {
			at = " at " + w.Node
		}
		if long != "" {
			after = ", after waiting" + long
		}
		return "going on" + at + after
	}
	node, next := "", "; trying "+w.Next
	if w.Node != "" {
		node = w.Node + ": "
	}
	switch {
	case w.Err == ErrSlow:
		next = ""
	case w.Next == w.Node:
		next = "; trying again"
	}
	return fmt.Sprintf("waiting%s: %s%v%s", long, node, w.Err, next)
}

// Teller is the state of one publisher or subscription. Safe for concurrent use.
type Teller struct {
	tell func(Wait)

	mu      sync.Mutex
	node    string          // that was asked last
	trouble error           // the last there was, for ever
	failed  string          // the node of it
	word    error           // the last of a node that could be reached
	speaker string          // that node
	spoken  time.Time       // when
	due     bool            // trouble is not told yet
	since   time.Time       // of the wait; zero without one
	told    map[string]bool // reasons of this wait
	last    time.Time       // when anything of this wait was told; zero: never
	ended   bool
	// A timer that has fired may come too late: the flag says whether it still holds.
	owing, open   bool
	owed, settled *time.Timer

	// outbox is what is to be told, in order; whoever finds it with nobody telling
	// tells it, without the lock.
	outbox  []Wait
	telling bool
}

// New makes a teller that calls tell, one call at a time; nil means that nobody
// wants to know.
func New(tell func(Wait)) *Teller {
	t := &Teller{tell: tell, told: map[string]bool{}}
	stopped := func(f func()) *time.Timer {
		timer := time.AfterFunc(time.Hour, f)
		timer.Stop()
		return timer
	}
	t.owed = stopped(t.late)
	t.settled = stopped(t.lasted)
	return t
}

// Trying says that a node is asked now, and owes an answer.
func (t *Teller) Trying(node string) {
	t.mu.Lock()
	t.node = node
	if t.due {
		t.say(Wait{Node: t.failed, Err: t.trouble, Next: node})
		t.due = false
	}
	t.owe()
	t.mu.Unlock()
	t.deliver()
}

// Owes says that the node that was tried owes an answer from now on; Quits that it
// owes none.
func (t *Teller) Owes() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owe()
}

// Quits is the opposite of Owes.
func (t *Teller) Quits() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quit()
}

// owe and quit have the lock held by their callers.
func (t *Teller) owe() {
	if !t.ended {
		t.owing = true
		t.owed.Reset(Slow)
	}
}

func (t *Teller) quit() {
	t.owing, t.open = false, false
	t.owed.Stop()
	t.settled.Stop()
}

// Unreached is what an error may have that says that a node could not be reached at all.
type Unreached interface{ Unreached() bool }

// Failed says that a node did not serve, and why.
func (t *Teller) Failed(node string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quit()
	if u, ok := err.(Unreached); !ok || !u.Unreached() {
		t.word, t.speaker, t.spoken = err, node, time.Now()
	}
	t.trouble, t.failed, t.due = err, node, true
	if t.since.IsZero() {
		t.since = time.Now()
	}
}

// Opened says that the node has accepted a stream, which may yet bring nothing.
func (t *Teller) Opened() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quit()
	if !t.since.IsZero() && !t.ended {
		t.open = true
		t.settled.Reset(Settle)
	}
}

// Serves says that the node has done what was asked: the wait is over.
func (t *Teller) Serves() {
	t.mu.Lock()
	t.over()
	t.mu.Unlock()
	t.deliver()
}

// lasted is Serves for a stream that says nothing, but does not break.
func (t *Teller) lasted() {
	t.mu.Lock()
	if t.open {
		t.over()
	}
	t.mu.Unlock()
	t.deliver()
}

// Idle says that there is nothing to wait for.
func (t *Teller) Idle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quit()
	t.due, t.since, t.last = false, time.Time{}, time.Time{}
	clear(t.told)
}

// over ends the wait. The lock is held.
func (t *Teller) over() {
	t.quit()
	if t.since.IsZero() {
		return
	}
	if !t.last.IsZero() {
		t.put(Wait{Node: t.node})
	}
	t.due, t.since, t.last = false, time.Time{}, time.Time{}
	clear(t.told)
}

// late tells that an answer is overdue, again and again.
func (t *Teller) late() {
	t.mu.Lock()
	if t.owing {
		if t.since.IsZero() {
			t.since = time.Now().Add(-Slow)
		}
		t.say(Wait{Node: t.node, Err: ErrSlow, Next: t.node})
		t.owed.Reset(Slow)
	}
	t.mu.Unlock()
	t.deliver()
}

// say puts a reason into the outbox, unless it is too soon for it. The lock is held.
func (t *Teller) say(w Wait) {
	now, key, pause := time.Now(), reason(w), Gap
	if t.told[key] || len(t.told) == maxReasons {
		pause = Again
	}
	if now.Sub(t.since) < Grace || now.Sub(t.last) < pause {
		return
	}
	if len(t.told) < maxReasons {
		t.told[key] = true
	}
	t.last = now
	t.put(w)
}

// reason is what makes one like another: the node and the words, whatever the
// figures in them.
func reason(w Wait) string {
	words := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, w.Err.Error())
	return w.Node + "\n" + words
}

// put has its lock held.
func (t *Teller) put(w Wait) {
	w.For = time.Since(t.since)
	if t.tell != nil && !t.ended {
		t.outbox = append(t.outbox, w)
	}
}

// deliver empties the outbox, unless someone does so already. The lock is not held
// during a call, so that a call may use what it is told of.
func (t *Teller) deliver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.telling {
		return
	}
	t.telling = true
	for len(t.outbox) > 0 {
		w := t.outbox[0]
		t.outbox = t.outbox[1:]
		t.mu.Unlock()
		t.tell(w)
		t.mu.Lock()
	}
	t.telling = false
}

// Trouble is the last trouble and the node that had it; nil without one. What a node has
// said a moment ago goes before another's silence.
func (t *Teller) Trouble() (node string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.word != nil && time.Since(t.spoken) < Again {
		return t.speaker, t.word
	}
	return t.failed, t.trouble
}

// End makes it the last: but for a call that is under way, there are no more.
func (t *Teller) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.outbox = true, nil
	t.quit()
}
