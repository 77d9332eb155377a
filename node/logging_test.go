package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// TestOrdinaryLines: what Raft and gossip warn of in every start and end is left out,
// the same words about anything else are not, and who asks for debug sees all.
func TestOrdinaryLines(t *testing.T) {
	t.Parallel()
	id := raft.ServerID("n1")
	for _, c := range []struct {
		left bool
		msg  string
		args []any
	}{
		{true, "no known peers, aborting election", nil},
		{true, "heartbeat timeout reached, starting election", []any{"last-leader-addr", raft.ServerAddress(""), "last-leader-id", raft.ServerID("")}},
		{false, "heartbeat timeout reached, starting election", []any{"last-leader-addr", raft.ServerAddress("a:1"), "last-leader-id", id}},
		{false, "heartbeat timeout reached, starting election", nil},
		{true, "failed to get previous log", []any{"previous-index", uint64(1), "last-index", uint64(0), "error", raft.ErrLogNotFound}},
		{false, "failed to get previous log", []any{"previous-index", uint64(9), "last-index", uint64(7), "error", raft.ErrLogNotFound}},
		{true, "appendEntries rejected, sending older logs", []any{"peer", id, "next", uint64(1)}},
		{false, "appendEntries rejected, sending older logs", []any{"peer", id, "next", uint64(10)}},
		{true, "failed to decode incoming command", []any{"error", raft.ErrTransportShutdown}},
		{false, "failed to decode incoming command", []any{"error", errors.New("unknown rpc type 7")}},
		{true, "memberlist: Failed to send gossip to 127.0.0.1:1: write udp: use of closed network connection", nil},
		{false, "memberlist: Failed to send gossip to 127.0.0.1:1: write udp: no route to host", nil},
		{false, "failed to contact quorum of nodes, stepping down", nil},
	} {
		said := func(level string, hush func() bool) bool {
			log := &testLog{t: t}
			config := Config{ID: "n", LogLevel: level, LogOutput: log, hush: hush}
			config.logger().Named("raft").Warn(c.msg, c.args...)
			return log.says(strings.TrimSpace(c.msg))
		}
		if got := said("warn", nil); got == c.left {
			t.Errorf("%s %v: logged is %v", c.msg, c.args, got)
		}
		if !said("debug", nil) {
			t.Errorf("%s %v: not logged at debug", c.msg, c.args)
		}
		if said("warn", func() bool { return true }) {
			t.Errorf("%s %v: logged where it is no news", c.msg, c.args)
		}
	}
	log := &testLog{t: t}
	c := Config{ID: "n", LogLevel: "warn", LogOutput: log, hush: func() bool { return true }}
	c.logger().Error(endedBadly, "error", "the disk is full")
	if !log.says("the disk is full") {
		t.Error("why a node ended is not logged")
	}
	if c.leftOut(hclog.Info, "no known peers, aborting election") {
		t.Error("a line that is no warning is left out")
	}
}
