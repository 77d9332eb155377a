package sim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"chorale/jepsen/check"
	"chorale/jepsen/history"
	"chorale/jepsen/sim/fixed"
	"chorale/jepsen/sim/limits"
	"chorale/node/engine"
	"chorale/segments"
)

// Bounds in virtual time after everything is healed. A leader may wait 30 s for the answer of
// a node that was killed while it took a snapshot in, and Raft 10.24 s more before it tries
// that one again, which knows no leader until then.
const (
	settleWithin  = 45 * time.Second
	publishWithin = 45 * time.Second
)

// Report is what became of one history.
type Report struct {
	Findings []check.Finding
	History  *history.History
	// Stream is what a reader of everything got at the end; with what has expired before
	// it, as the model knows it.
	Stream []history.Message
	// Seen lists the events that came up, for the person who tunes the generator.
	Seen string
	// Virtual is how much time passed inside.
	Virtual time.Duration
}

// Run runs one history. It must be called inside a bubble of testing/synctest.
func Run(o Options) Report {
	defer fixed.Collect()()
	c := newCluster(o)
	for _, m := range c.machines {
		m.start()
	}
	c.storm()
	c.settle()
	streams := c.readAll(finals)
	align(streams)
	if c.plan.finalRestart {
		for _, m := range c.machines {
			m.stop()
			m.start()
		}
		for i, again := range c.readAll(finals + nodes) {
			both := [][]history.Message{streams[i], again}
			align(both)
			findings := check.Same(c.machines[i].name, both[0], c.machines[i].name+" after a restart", both[1])
			c.findings = append(c.findings, findings...)
		}
	}
	c.compareFiles()
	c.checkLevel()
	var applied, oldest uint64
	for _, m := range c.machines {
		if p := m.process(); p != nil {
			s := p.engine.Status()
			applied, oldest = max(applied, s.Applied), max(oldest, s.History.Oldest)
			if s.History.Stores > 0 {
				c.saw("segments became stores")
			}
			for _, event := range limits.Shown(segments.Manifest{Files: p.engine.Files()}) {
				c.saw(event)
			}
			if s.Fill.Fills > 0 {
				c.saw("a tip was filled from the history")
			}
		}
		m.stop()
	}
	// What is on the wire arrives or expires; whatever then still runs is a leak, and
	// the bubble says so.
	time.Sleep(2 * lingering)
	r := Report{History: c.rec.History(), Stream: longest(streams), Virtual: time.Since(c.begin)}
	c.look(r.History)
	r.Findings = c.findings
	for i, s := range streams[1:] {
		r.Findings = append(r.Findings, check.Same(c.machines[0].name, streams[0], c.machines[i+1].name, s)...)
	}
	truth, findings := c.ledger.Replay(applied)
	if len(truth.Floors) > 0 {
		c.saw("messages of a subtree expired")
	}
	if truth.Drops > 0 {
		c.saw("a file went of which nothing was left")
	}
	r.Findings = append(r.Findings, findings...)
	r.Findings = append(r.Findings, truth.Compare(r.History, r.Stream, oldest)...)
	if oldest > 1 {
		c.saw("messages expired")
	}
	if len(r.Stream) < len(truth.Stream) {
		r.Stream = truth.Stream
	}
	r.Findings = append(r.Findings, check.All(r.History, r.Stream)...)
	r.Seen = c.sawList()
	return r
}

// align lets all streams begin where the last one does: a node that has not heard of an
// expiry yet gives more.
func align(streams [][]history.Message) {
	oldest := uint64(0)
	for _, s := range streams {
		if len(s) > 0 {
			oldest = max(oldest, s[0].Seq)
		}
	}
	for i, s := range streams {
		for len(s) > 0 && s[0].Seq < oldest {
			s = s[1:]
		}
		streams[i] = s
	}
}

// longest is the truth to judge by where a node lags.
func longest(streams [][]history.Message) []history.Message {
	return slices.MaxFunc(streams, func(a, b []history.Message) int { return len(a) - len(b) })
}

// storm runs clients and nemesis, then calms everything and waits until the
// publishers have an answer to all that they sent.
func (c *cluster) storm() {
	ctx, cancel := context.WithTimeout(context.Background(), c.plan.storm)
	defer cancel()
	var clients, harm sync.WaitGroup
	for i := range c.plan.producers + c.plan.plain {
		clients.Go(func() { c.publisher(i+1, i < c.plan.producers).run(ctx) })
	}
	for i := range c.plan.readers {
		filters := filterSets[c.rng("filters", i).IntN(len(filterSets))]
		clients.Go(func() { c.subscriber(i+1, filters).run(ctx) })
	}
	for i := range c.plan.probes {
		clients.Go(func() { c.probe(ctx, i) })
	}
	harm.Go(func() { (&nemesis{c, c.rng("nemesis", 0)}).run(ctx) })
	if c.plan.replaced {
		c.operating.Go(func() { (&operator{c, c.rng("operator", 0)}).run(ctx) })
	}
	if c.plan.retained || c.plan.ruled {
		c.operating.Go(func() { c.retain(ctx) })
	}
	harm.Wait()
	c.booting.Wait()
	if c.plan.finalCrash {
		for _, m := range c.machines {
			c.crashFor(m, true, 0)
		}
		c.booting.Wait()
	}
	c.calm()
	c.setDeadline(time.Now().Add(settleWithin))
	c.operating.Wait()
	clients.Wait()
	if c.expired() {
		c.found("stuck", "%v after everything was healed publishers still wait for answers", settleWithin)
	}
}

// settle shows that the cluster works again: a publish through each node. What was on its
// way, as a batch that a node forwarded before it crashed, comes before that: the stream is
// then all that there will be.
func (c *cluster) settle() {
	time.Sleep(time.Until(c.net.Arrival()))
	c.setDeadline(time.Now().Add(publishWithin))
	for i := range c.machines {
		p := c.publisher(100+i, true)
		p.node = i
		for left := p.draw(); len(left) > 0; time.Sleep(50 * time.Millisecond) {
			if left = p.round(left); len(left) > 0 && c.expired() {
				c.found("stuck", "no publish through %s within %v: %s", c.machines[i].name, publishWithin, p.trouble)
				break
			}
		}
	}
}

// finals is the first of the readers that read everything at the end.
const finals = 100

// readAll reads everything from each node, by readers from that number on, and lets
// no node lag behind what clients or nodes know to be stored.
func (c *cluster) readAll(reader int) [][]history.Message {
	c.sameFloors()
	var head uint64
	for _, m := range c.machines {
		if p := m.process(); p != nil {
			head = max(head, p.engine.End())
		}
	}
	h := c.rec.History()
	for _, a := range h.Attempts {
		if a.Result == history.Stored || a.Result == history.Duplicate {
			head = max(head, a.Seq+uint64(len(h.Units[a.Unit].Messages))-1)
		}
	}
	streams := make([][]history.Message, nodes)
	var all sync.WaitGroup
	for i, m := range c.machines {
		all.Go(func() {
			s := &subscriber{c: c, id: reader + i, rng: c.rng("final", i), filters: []string{"**"}}
			s.start.FromOldest = c.plan.retained
			if !s.reach(m, head, settleWithin) {
				c.found("lagging", "%s has come to %d of %d after %v", m.name, s.at, head, settleWithin)
			}
		})
	}
	all.Wait()
	var number [nodes]int
	for _, r := range c.rec.History().Reads {
		i := r.Reader%again - reader
		if i < 0 || i >= nodes {
			continue
		}
		if r.Reader != number[i] { // it began anew, on a node that had not heard of an expiry
			number[i], streams[i] = r.Reader, nil
		}
		streams[i] = append(streams[i], r.Messages...)
	}
	return streams
}

// compareFiles waits until the data files of all nodes are the same to the byte.
func (c *cluster) compareFiles() {
	var difference string
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if difference = c.difference(); difference == "" {
			return
		}
	}
	c.found("diverged", "the data files differ %v after the heal: %s", settleWithin, difference)
}

// difference leaves out the files that were damaged somewhere: one that nobody
// reads is not noticed, and one that readAll came across was repaired, or it would
// not have come to the end.
func (c *cluster) difference() string {
	first, err := c.machines[0].files()
	if err != nil {
		return err.Error()
	}
	for _, m := range c.machines[1:] {
		other, err := m.files()
		if err != nil {
			return err.Error()
		}
		for _, name := range slices.Sorted(maps.Keys(first)) {
			if b, ok := other[name]; (!ok || !bytes.Equal(b, first[name])) && !c.isSpoilt(name) {
				return fmt.Sprintf("%s of %s: %d bytes, of %s: %d", name, c.machines[0].name, len(first[name]), m.name, len(b))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(other)) {
			if _, ok := first[name]; !ok && !c.isSpoilt(name) {
				return fmt.Sprintf("%s is on %s and not on %s", name, m.name, c.machines[0].name)
			}
		}
	}
	return ""
}

// files are the machine's data files by name.
func (m *machine) files() (map[string][]byte, error) {
	infos, err := m.disk.List(engine.Dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, info := range infos {
		if !strings.HasSuffix(info.Name(), ".seg") {
			continue // unfinished, or set aside because it is damaged
		}
		if out[info.Name()], err = m.disk.ReadFile(engine.Dir + "/" + info.Name()); err != nil {
			return nil, err
		}
	}
	return out, nil
}
