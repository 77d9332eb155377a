package backup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"chorale/disk"
)

func sha(b []byte) [32]byte { return sha256.Sum256(b) }

// TestInterrupted: wherever a backup breaks off, by a crash or by an error of the disk,
// the folder is the backup that it was before or the new one, whole, or says that there
// is none; and the next run makes the new one.
func TestInterrupted(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		calls := 0
		for interrupt(t, earlier, fmt.Sprintf("on any * after %d crash", calls), uint64(calls)) {
			calls++
		}
		if calls < 20 {
			t.Fatalf("only %d calls were seen", calls)
		}
		for after := range calls { // a failing read is no failure: the file is copied again
			interrupt(t, earlier, fmt.Sprintf("on any * after %d times 1 fail EIO", after), uint64(after))
			interrupt(t, earlier, fmt.Sprintf("on any * after %d fail ENOSPC", after), uint64(after))
		}
	}
}

// interrupt reports whether the backup failed.
func interrupt(t *testing.T, earlier bool, fault string, seed uint64) bool {
	t.Helper()
	c, m := newCluster(t, 1), disk.NewMem(seed)
	was := uint64(0)
	if earlier {
		c.publish(20)
		c.mustTake(m)
		c.expire()
		was = 20
	}
	c.publish(20)
	if err := m.Fault(fault); err != nil {
		t.Fatal(err)
	}
	_, failed := c.take(m.Mount())
	m.ClearFaults()
	m.Crash()

	d, bad, err := verify(m.Mount())
	switch {
	case len(bad) > 0:
		t.Fatalf("%s, earlier %v: %v", fault, earlier, bad)
	case errors.Is(err, ErrNone) && !earlier && failed != nil:
	case err != nil:
		t.Fatalf("%s, earlier %v, after %v: %v", fault, earlier, failed, err)
	case d.Seq != was && d.Seq != was+20, failed == nil && d.Seq != was+20:
		t.Fatalf("%s, earlier %v: the backup is of seq %d", fault, earlier, d.Seq)
	}
	if took := c.mustTake(m.Mount()); sound(t, m.Mount()) != was+20 || took.Copied+took.Kept != took.Files {
		t.Fatalf("%s, earlier %v: the next run: %+v", fault, earlier, took)
	}
	if names := namesIn(t, m, "."); len(names) != 3 {
		t.Fatalf("%s, earlier %v: left behind: %v", fault, earlier, names)
	}
	if names := namesIn(t, m, dataDir); len(names) != len(c.history.Manifest().Files) {
		t.Fatalf("%s, earlier %v: left behind: %v", fault, earlier, names)
	}
	return failed != nil
}

// TestRestoreInterrupted: a restore that breaks off founds nothing, and is gone on with.
func TestRestoreInterrupted(t *testing.T) {
	c, from := newCluster(t, 1), disk.NewMem(1)
	c.publish(40)
	c.mustTake(from)
	for after := 0; ; after++ {
		m := disk.NewMem(uint64(after))
		if err := m.Fault(fmt.Sprintf("on any * after %d crash", after)); err != nil {
			t.Fatal(err)
		}
		first := &target{fs: m.Mount()}
		failed := restore(from, first)
		if (failed == nil) != (first.founded != nil) {
			t.Fatalf("after %d: %v, and a node was founded: %v", after, failed, first.founded != nil)
		}
		m.ClearFaults()
		m.Crash()
		if after == 20 { // the backup is another one by now, and names other files
			c.publish(20)
			c.expire()
			c.mustTake(from)
		}
		again := &target{fs: m.Mount()}
		if err := restore(from, again); err != nil || again.founded == nil || again.founded.LastSeq != c.number {
			t.Fatalf("after %d: %v", after, err)
		}
		if here := namesIn(t, m, "segments"); len(here) != len(c.history.Manifest().Files) {
			t.Fatalf("after %d: %v", after, here)
		}
		for _, f := range c.history.Manifest().Files {
			b, err := m.ReadFile("segments/" + f.Name())
			if err != nil || sha(b) != f.Hash {
				t.Fatalf("after %d: %s: %v", after, f.Name(), err)
			}
		}
		if failed == nil {
			if after < 25 {
				t.Fatalf("only %d calls were seen", after)
			}
			return
		}
	}
}
