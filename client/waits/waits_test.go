package waits

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errDown = errors.New("connection refused")

// heard is what a teller told, and when, from the start of the bubble.
type heard struct {
	begin time.Time
	lines []string
}

func listen() (*heard, *Teller) {
	h := &heard{begin: time.Now()}
	return h, New(func(w Wait) { h.lines = append(h.lines, fmt.Sprintf("%v %v", time.Since(h.begin), w)) })
}

func (h *heard) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(h.lines, lines) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(h.lines, "\n"), strings.Join(lines, "\n"))
	}
}

// fail asks nodes in turn, each of which fails with what why gives after the pause.
func fail(t *Teller, rounds int, pause time.Duration, why func(node int) error, nodes ...string) {
	for range rounds {
		for i, n := range nodes {
			t.Trying(n)
			time.Sleep(pause)
			t.Failed(n, why(i))
		}
	}
}

func TestAFailoverIsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := listen()
		fail(w, 1, 100*time.Millisecond, func(int) error { return errDown }, "a", "b")
		w.Trying("c")
		w.Serves()
		time.Sleep(time.Minute)
		fail(w, 1, 100*time.Millisecond, func(int) error { return errDown }, "c")
		w.Trying("a")
		w.Opened()
		time.Sleep(time.Minute)
		h.want(t)
	})
}

// The same reason is told at once and then every five seconds, whatever figures are
// in it; the end is told once.
func TestOneReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := listen()
		tries := 0
		fail(w, 18, 500*time.Millisecond, func(int) error { tries++; return fmt.Errorf("no leader for %d s", tries) }, "a")
		w.Trying("a")
		w.Opened()
		time.Sleep(10 * time.Second)
		w.Serves()
		h.want(t,
			"1s waiting: a: no leader for 2 s; trying again",
			"6s waiting for 5s: a: no leader for 12 s; trying again",
			"10s going on at a, after waiting for 9s")
	})
}

// Every new reason is told once soon, and none more often than once a second.
func TestManyReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := listen()
		fail(w, 6, 250*time.Millisecond, func(node int) error { return fmt.Errorf("reason %c", 'x'+node) }, "a", "b", "c")
		w.Trying("a")
		w.Serves()
		h.want(t,
			"500ms waiting: b: reason y; trying c",
			"1.5s waiting for 1s: c: reason z; trying a",
			"2.5s waiting for 2s: a: reason x; trying b",
			"4.5s going on at a, after waiting for 4s")

		h.lines = nil
		n := 0
		fail(w, 40_000, 10*time.Millisecond, func(int) error { n++; return errors.New(strings.Repeat("x", n%1000)) }, "a")
		synctest.Wait()
		if told := len(h.lines); told > maxReasons+400/5+1 {
			t.Errorf("%d lines in 400 s", told)
		}
		if len(w.told) > maxReasons {
			t.Errorf("%d reasons are remembered", len(w.told))
		}
	})
}

// A stream that opens and breaks again and again is not going on.
func TestAStreamMustLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := listen()
		for range 12 {
			w.Trying("a")
			w.Opened()
			time.Sleep(500 * time.Millisecond)
			w.Failed("a", errors.New("a file is missing"))
		}
		w.Trying("a")
		w.Opened()
		time.Sleep(time.Minute)
		h.want(t,
			"1s waiting: a: a file is missing; trying again",
			"6s waiting for 5s: a: a file is missing; trying again",
			"7s going on at a, after waiting for 6s")
	})
}

// A node that answers nothing is told of before it is given up.
func TestASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := listen()
		w.Trying("a")
		time.Sleep(9 * time.Second)
		w.Failed("a", errDown)
		w.Trying("b")
		w.Serves()
		w.Owes()
		time.Sleep(time.Second)
		w.Quits()
		time.Sleep(time.Minute)
		h.want(t,
			"2s waiting for 2s: a: no answer yet",
			"8s waiting for 8s: a: no answer yet",
			"9s waiting for 9s: a: connection refused; trying b",
			"9s going on at b, after waiting for 9s")
	})
}

// Nothing to do is no wait, and after the end nobody is told.
func TestIdleAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := listen()
		fail(w, 1, time.Second, func(int) error { return errDown }, "a")
		w.Idle()
		time.Sleep(time.Minute)
		w.Trying("b")
		w.Serves()
		h.want(t)
		w.Trying("a")
		w.End()
		w.Owes()
		w.Opened()
		time.Sleep(time.Minute)
		fail(w, 4, time.Second, func(int) error { return errDown }, "a")
		w.Serves()
		h.want(t)
		if node, err := w.Trouble(); node != "a" || err != errDown {
			t.Errorf("the last trouble is %v of %q", err, node)
		}
	})
}

// A call may ask and tell the teller: it is not held meanwhile, and the next call
// waits for its turn.
func TestCallsComeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *Teller
		var lines []string
		calling := 0
		w = New(func(told Wait) {
			if calling++; calling > 1 {
				t.Error("two calls at a time")
			}
			time.Sleep(1500 * time.Millisecond)
			w.Trouble()
			lines = append(lines, told.String())
			calling--
		})
		w.Trying("a")
		time.Sleep(3 * time.Second)
		w.Serves()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"waiting for 2s: a: no answer yet", "going on at a, after waiting for 3s"}; !slices.Equal(lines, want) {
			t.Errorf("told %q, want %q", lines, want)
		}
	})
}

type unreached struct{ error }

func (unreached) Unreached() bool { return true }

// The trouble is what a node has said, as long as that is fresh; else the last of all.
func TestTheWordOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w := listen()
		is := func(node, text string) {
			t.Helper()
			if n, err := w.Trouble(); n != node || err == nil || err.Error() != text {
				t.Errorf("node %s: %v, want %s: %s", n, err, node, text)
			}
		}
		w.Failed("a", unreached{errDown})
		is("a", "connection refused")
		w.Failed("b", errors.New("no majority"))
		w.Failed("a", unreached{errDown})
		is("b", "no majority")
		time.Sleep(Again)
		is("a", "connection refused")
		w.End()
	})
}
