package sim

import (
	"slices"
	"strings"

	"chorale/jepsen/history"
	"chorale/node/engine"
)

// events are what must come up now and then, or the histories are not as hard as
// they look. TestSim asks for all of them over a hundred histories.
var events = []string{
	"a snapshot was sent", "a data file was fetched", "segments became stores", "a tip was filled from the history",
	"a retry was a duplicate", "a condition failed", "a number was missing", "an outcome stayed unknown", "a batch was refused",
	"a reader resumed on another node", "a reader fell behind the tip", "a reader passed 1000 messages",
	"a node ended by itself", "a file was damaged", "a file was damaged on all machines", "all machines were down at once",
	"a machine was replaced", "a machine was upgraded", "messages expired", "messages of a subtree expired", "a reader was told of a floor", "a merge left out what had gone",
	"a file went of which nothing was left", "a range was rewritten where it is",
	"a reader was overtaken by the retention",
}

// saw notes an event.
func (c *cluster) saw(event string) {
	if !slices.Contains(events, event) {
		panic(event + " is not in the list of events")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[event] = true
}

// look finds the events that show in the network and the history.
func (c *cluster) look(h *history.History) {
	snapshots, chunks := c.net.Carried()
	if snapshots > 0 {
		c.saw("a snapshot was sent")
	}
	if chunks > 0 {
		c.saw("a data file was fetched")
	}
	byResult := map[history.Result]string{
		history.Duplicate: "a retry was a duplicate", history.Refused: "a condition failed", history.Gap: "a number was missing",
		history.Unknown: "an outcome stayed unknown", history.Failed: "a batch was refused",
	}
	for _, a := range h.Attempts {
		if event, ok := byResult[a.Result]; ok {
			c.saw(event)
		}
	}
	last := map[int]string{}
	for _, r := range h.Reads {
		if before, ok := last[r.Reader]; ok && before != r.Node {
			c.saw("a reader resumed on another node")
		}
		last[r.Reader] = r.Node
		if len(r.Floors) > 0 {
			c.saw("a reader was told of a floor")
		}
		if len(r.Messages) > 1000 && r.Reader < finals {
			c.saw("a reader passed 1000 messages")
		}
	}
}

// lagging notes a reader whose next message has left the tip.
func (c *cluster) lagging(e *engine.Engine, at uint64) {
	if at+1 < e.Floor() {
		c.saw("a reader fell behind the tip")
	}
}

// sawList lists the events in one line.
func (c *cluster) sawList() string {
	var out []string
	for _, e := range events {
		if c.seen[e] {
			out = append(out, e)
		}
	}
	return strings.Join(out, "; ")
}
