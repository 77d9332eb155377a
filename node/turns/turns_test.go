package turns

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// waited takes a turn and returns how long that took.
func waited(t *Turns, end uint64) (Turn, time.Duration) {
	begun := time.Now()
	u := t.Take(context.Background(), end)
	return u, time.Since(begun)
}

func ignore(time.Duration) {}

// busy is Busy with the lease of a node.
func busy(processors int) *Turns {
	t := Busy(processors, ignore)
	t.lease = lease
	return t
}

func expect(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s: waited %v, want %v", what, got, want)
	}
}

// TestQuiet: where nothing is published, nobody waits.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(2, ignore)
		turns.sleep = time.Sleep
		turns.Take(t.Context(), 7).Give()
		time.Sleep(2 * active)
		turns.waited = func(time.Duration) { t.Error("a wait is told of though nothing is published") }
		for range 5 {
			u, took := waited(turns, 7)
			expect(t, "nothing is published", took, 0)
			if u != (Turn{}) || u.Limit(1<<20) != 1<<20 {
				t.Error("a turn was taken though nothing is published")
			}
			u.Give()
		}
	})
}

// TestSeldom: who publishes five messages a second is left the processor like who publishes
// many, and behind the last one nobody waits any more.
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := busy(2)
		took := func(end uint64) bool {
			u := turns.Take(t.Context(), end)
			defer u.Give()
			return u.turns != nil
		}
		for end := range uint64(3) {
			for range 4 {
				if !took(end + 1) {
					t.Error("no turn was taken between two messages")
				}
				time.Sleep(time.Second / 20)
			}
		}
		time.Sleep(active)
		if took(3) {
			t.Error("a turn was taken long behind the last message")
		}
	})
}

// TestProcessorsToSpare: where sleepers wake in time, nobody waits, whatever is published.
func TestProcessorsToSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(2, func(time.Duration) { t.Error("a wait is told of though nobody wakes late") })
		turns.sleep = time.Sleep
		for end := range uint64(5) {
			u, took := waited(turns, end+1)
			expect(t, "nobody wakes late", took, 0)
			if u.turns != nil {
				t.Error("a turn was taken though nobody wakes late")
			}
			time.Sleep(2 * probe)
		}
		turns.waited = ignore
		turns.woke(lateLimit + 1)
		if u := turns.Take(t.Context(), 6); u.turns == nil {
			t.Error("no turn was taken behind a late probe")
		}
		time.Sleep(2 * lease) // the probe and the lease end
	})
}

// TestProbes: each reader while messages are published has a sleeper sent, one at a time, and
// how late they wake decides.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, late := New(2, ignore), 2*lateLimit
		turns.sleep = func(d time.Duration) { time.Sleep(d + late) }
		read := func(end uint64) float64 {
			for range 3 {
				turns.Take(t.Context(), end).Give()
			}
			time.Sleep(lease + probe + 2*lateLimit)
			return turns.Pause()
		}
		for n := range 3 {
			if got, want := read(uint64(n+1)), float64(n+1)*pauseGrow; got != want {
				t.Errorf("behind %d late sleepers the pause is %v turns, want %v", n+1, got, want)
			}
		}
		late = 0
		if got, want := read(9), 3*pauseGrow-pauseFade; got != want {
			t.Errorf("behind one in time the pause is %v turns, want %v", got, want)
		}
	})
}

// TestInTurn: half of the processors read at a time, one reader behind the other; who keeps
// its turn for too long loses it, and gives nothing back afterwards.
func TestInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := busy(5)
		a, took := waited(turns, 1)
		expect(t, "first of two", took, 0)
		b, took := waited(turns, 2)
		expect(t, "second of two", took, 0)
		go func() {
			time.Sleep(3 * time.Millisecond)
			a.Give()
		}()
		c, took := waited(turns, 3)
		expect(t, "behind the first", took, 3*time.Millisecond)
		_, took = waited(turns, 4)
		expect(t, "behind the second, which keeps its turn", took, lease-3*time.Millisecond)
		b.Give()
		c.Give()
		time.Sleep(2 * lease)
		if len(turns.slots) != cap(turns.slots) {
			t.Errorf("%d slots are free in the end, want %d", len(turns.slots), cap(turns.slots))
		}
	})
}

// TestPause: if a sleeper wakes late, the next turn begins the later, up to a limit; and the
// pauses fade.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := busy(1)
		const work = 4 * time.Millisecond
		end := uint64(0)
		after := func() time.Duration {
			end++
			u, _ := waited(turns, end)
			time.Sleep(work)
			u.Give()
			end++
			u, took := waited(turns, end)
			u.Give()
			return took
		}
		expect(t, "hardly anybody wakes late", after(), 0)
		turns.woke(0)
		turns.woke(lateLimit + 1)
		expect(t, "behind a late probe", after(), time.Duration(pauseGrow*float64(work)))
		turns.woke(lateLimit + 1)
		turns.woke(lateLimit)
		expect(t, "behind another, and one in time", after(), time.Duration((2*pauseGrow-pauseFade)*float64(work)))
		for range 100 {
			turns.woke(time.Hour)
		}
		expect(t, "behind very many", after(), time.Duration(pauseMost*float64(work)))
		for range 1000 {
			turns.woke(0)
		}
		expect(t, "in time again", after(), 0)
	})
}

// TestPatience: a reader that gets no turn reads without one, and one whose client goes
// away does not wait.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := busy(2)
		<-turns.slots // lost: whatever happens, nobody waits for ever
		u, took := waited(turns, 1)
		expect(t, "no turn comes", took, patience)
		if u.turns != nil {
			t.Error("a turn was taken though there is none")
		}
		if got := u.Limit(1 << 20); got != turnBytes {
			t.Errorf("without a turn %d bytes are read, want as many as in one", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		turns.Take(ctx, 2).Give()
		expect(t, "the client has gone", time.Since(begun), 0)
	})
}

// TestTold: each wait of a reader that was to take a turn is told, and how many wait.
func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []time.Duration
		turns := busy(2)
		turns.waited = func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, d)
		}
		u := turns.Take(t.Context(), 1)
		for i := range 3 {
			go turns.Take(t.Context(), uint64(i+2))
			synctest.Wait()
			if got := turns.Waiting(); got != i+1 {
				t.Errorf("%d readers wait, want %d", got, i+1)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond)
		u.Give() // at 5 ms; the others keep theirs until the lease ends
		synctest.Wait()
		if got := turns.Waiting(); got != 2 {
			t.Errorf("%d readers wait, want 2", got)
		}
		time.Sleep(patience)
		if got := turns.Waiting(); got != 0 {
			t.Errorf("%d readers wait in the end", got)
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(told) // whose turn is first is not said
		if len(told) != 4 || told[0] != 0 || told[1] > 5*time.Millisecond || told[3] < 2*lease || told[3] > 5*time.Millisecond+2*lease {
			t.Errorf("told %v", told)
		}
	})
}
