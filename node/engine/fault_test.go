package engine

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"chorale/message"
	"chorale/node/watchdog"
)

// fill publishes about that many bytes through the node.
func (n *testNode) fill(bytes int) (err error) {
	for ; bytes > 0 && err == nil; bytes -= 1000 {
		_, err = n.publish(batchOf(message.ProducerID{}, 0, "a/b", strings.Repeat("x", 1000)))
	}
	return err
}

// TestDiskFails: a leader whose disk fails ends with that error, and the others go
// on without it.
func TestDiskFails(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader := c.leader()
		if err := leader.files.Fault(`on sync "*" fail EIO`); err != nil {
			t.Fatal(err)
		}
		_ = leader.fill(100 << 10)
		err := <-leader.ended
		if err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Fatalf("Run returned %v", err)
		}
		if why := leader.engine.NotReady(); !strings.Contains(why, "input/output error") {
			t.Errorf("not ready because %q", why)
		}
		if _, err := leader.publish(batchOf(message.ProducerID{}, 0, "a", "x")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("published to a node that has ended: %v", err)
		}
		leader.isolate()
		leader.engine = nil
		c.leader().mustPublish("a", "y")
		c.sameEverywhere()
	})
}

// TestDiskHangs: a leader whose disk hangs ends too, within a bounded time, and
// answers everything that it took.
func TestDiskHangs(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		leader := c.leader()
		if err := leader.files.Fault(`on sync "*" stall`); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		filled := make(chan error, 1)
		go func() { filled <- leader.fill(1 << 20) }()
		err := <-leader.ended
		if !errors.Is(err, errHung) || !strings.Contains(err.Error(), "disk hangs") {
			t.Errorf("Run returned %v", err)
		}
		if d := time.Since(start); d > watchdog.Deadline+watchdog.Deadline/10+endWait+time.Second {
			t.Errorf("it took %v", d)
		}
		if err := <-filled; !errors.Is(err, ErrUnknown) {
			t.Errorf("the batch in flight was answered with %v", err)
		}
		leader.isolate()
		leader.engine = nil
		c.leader().mustPublish("a", "y")
		leader.files.ClearFaults()
		pass(time.Minute) // what hung comes back and ends
		c.sameEverywhere()
	})
}

// TestForeignFile: a file that is not ours among the segments is refused at Open.
func TestForeignFile(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		n := c.leader()
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		if err := n.files.PutFile(Dir+"/holiday.jpg", []byte("JFIF")); err != nil {
			t.Fatal(err)
		}
		_, err := Open(n.settings, Seams{Files: n.files.Mount()})
		if err == nil || !strings.Contains(err.Error(), "holiday.jpg") {
			t.Errorf("opened: %v", err)
		}
		if err := n.files.Lose(Dir + "/holiday.jpg"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	})
}

// TestReadiness: what a node says of itself from its start on.
func TestReadiness(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		follower := c.follower()
		follower.isolate()
		pass(contactWait + time.Second)
		if why := follower.engine.NotReady(); !strings.HasPrefix(why, "no word from a leader") {
			t.Errorf("cut off: %q", why)
		}
		follower.connect()
		c.until("it is ready again", func() bool { return follower.engine.NotReady() == "" })
		if err := follower.stop(); err != nil {
			t.Fatal(err)
		}
		c.leader().mustPublish("a", "x")
		follower.start()
		// What it says first depends on how far its loops are, never that it is ready.
		if why := follower.engine.NotReady(); why == "" {
			t.Error("ready before it has heard of anything")
		}
		c.until("it has caught up", func() bool { return follower.engine.NotReady() == "" })
		if end := follower.engine.End(); end != 1 {
			t.Errorf("ready with %d messages of 1", end)
		}
		st := follower.engine.Status()
		if st.State != "follower" || st.Leader != c.leader().id || len(st.Servers) != 3 || st.View.LastSeq != 1 || st.Topics != 1 {
			t.Errorf("%+v", st)
		}
	})
}
