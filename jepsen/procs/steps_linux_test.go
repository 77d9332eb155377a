package procs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chorale/api"
	"chorale/internal/procs"
)

const (
	// payload and share are what a publisher sends in a section: messages of that many
	// bytes, so many. Together less than leastKept, so that nothing expires that the
	// judge has not read.
	payload = 4 << 10
	share   = 120
	// underWay bounds the entries of the log, at whose ends segments are cut.
	underWay = 4
	// leastKept is the smallest retention, and usuallyKept the one of most sections.
	leastKept   = 3 << 20
	usuallyKept = 12 << 20
	// allKept lets ranges grow, and nothing go.
	allKept = 1 << 30
	// ruledKept is what is kept of ruled where a part of the subtrees is to go: less than
	// usuallyKept has of it, and more than a section brings.
	ruled     = "app/p1/**"
	ruledKept = 1 << 20
	// mostSections is how long a round waits for its step.
	mostSections = 12
)

// victims are who is killed when a node shows a step. The leader and a follower are
// killed at their own step, unless the leader alone shows it.
var victims = []string{"the leader", "a follower", "all"}

// hunt is an arena in which steps are watched.
type hunt struct {
	*arena
	watchers map[*procs.Node]*watcher
	ps       []*publisher
	read     []uint64 // how far the stream of each node was read
	live     []uint64 // how far the readers of the whole cluster were
	kept     uint64   // the retention
	hits     map[string]map[string]int
}

// filtersOfLive are what the readers beside the publishers want.
var filtersOfLive = [][]string{{"**"}, {"shared/**", "app/p1/*"}}

// TestSteps kills nodes at each step of their work on files: a segment or a layer is
// built, an edit is installed, what it replaces goes, layers are merged, messages expire, of
// a subtree too, a lost file is fetched, a snapshot is written. Behind each kill all nodes
// come to the same files, which are sound, and no other file is left. In twenty-two rounds
// each step has its turn.
func TestSteps(t *testing.T) {
	t.Parallel()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	h := newHunt(t)
	defer h.report()
	deck := h.deck()
	if len(deck) == 0 {
		t.Fatalf("there is no step %q", *only)
	}
	for n := range *rounds {
		c := deck[n%len(deck)]
		h.round(n, c.step, c.who)
		if t.Failed() {
			break
		}
	}
	for _, p := range h.ps {
		h.close(p)
	}
	h.readOn()
	h.judge()
}

func newHunt(t *testing.T) *hunt {
	a := newArenaWith(t, *seed, program, "--log-level", "debug", "--segment-size", "64KiB", "--store-size", "64KiB", "--tip-size", "1MiB",
		"--snapshot-size", "1MiB", "--compact-rate", "4MiB", "--fetch-rate", "1MiB")
	h := &hunt{
		arena: a, watchers: map[*procs.Node]*watcher{}, read: make([]uint64, len(a.cluster.Nodes)), live: make([]uint64, len(filtersOfLive)),
		hits: map[string]map[string]int{},
	}
	for _, n := range a.cluster.Nodes {
		h.watchers[n] = watch(t, n)
	}
	for i := range publishers {
		p, err := newPublisher(a.rec, i+1, underWay, a.shuffled()...)
		a.must(err)
		p.size = payload
		h.ps = append(h.ps, p)
	}
	return h
}

type card struct {
	step moment
	who  string
}

// deck deals each step once before any comes again, with each of the victims in turn.
func (h *hunt) deck() (out []card) {
	first := h.rng.Perm(len(allSteps)) // who is the victim of a step first
	for turn := range victims {
		for _, i := range h.rng.Perm(len(allSteps)) {
			if *only != "" && allSteps[i].name != *only {
				continue
			}
			out = append(out, card{allSteps[i], victims[(first[i]+turn)%len(victims)]})
		}
	}
	return out
}

// round goes on until the step was seen and somebody killed at it. A section of it is
// some traffic, and then rest, in which everything is compared.
func (h *hunt) round(n int, s moment, who string) {
	h.note("round %d: %s: %s", n, s.name, who)
	for i := range mostSections {
		skip := h.skip(s)
		if i >= mostSections/2 {
			skip = 0 // it is a rare one
		}
		if h.section(n, s, who, skip) {
			if h.hits[s.name] == nil {
				h.hits[s.name] = map[string]int{}
			}
			h.hits[s.name][who]++
			return
		}
		if h.t.Failed() {
			return
		}
	}
	h.t.Errorf("round %d: nobody came to the step: %s", n, s.name)
}

func (h *hunt) section(n int, s moment, who string, skip int) (hit bool) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*patience)
	defer cancel()
	watched, killed := h.choose(ctx, s, who)
	h.retain(ctx, s)
	w := h.watchers[watched]
	tr := &trap{step: s, skip: skip, fired: make(chan struct{})}
	for _, v := range killed {
		tr.pids = append(tr.pids, v.PID())
	}
	w.trap.Store(tr)
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	for i, filters := range filtersOfLive {
		nodes := h.shuffled()
		readers.Go(func() {
			var err error
			if h.live[i], err = readOn(reading, h.rec, i+1, h.live[i], false, filters, nodes...); err != nil {
				h.t.Error(err)
			}
		})
	}
	if s.wants == loss {
		h.lose(ctx, watched)
	}
	answered := h.publish(ctx)
	revive := func() {
		hit = true
		h.note("round %d: kill %s: %s (on %s)", n, names(killed), s.name, watched.Name)
		h.revive(killed)
	}
	select {
	case <-tr.fired:
		revive()
		<-answered
	case <-answered:
	}
	h.settle(ctx, func() {
		select {
		case <-tr.fired:
			if !hit {
				revive()
			}
		default:
		}
	}, func() bool { return hit || w.trap.CompareAndSwap(tr, nil) })
	stop()
	readers.Wait()
	h.readOn()
	return hit
}

func names(nodes []*procs.Node) string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return strings.Join(out, ", ")
}

// choose draws the node whose steps are watched, and those that are killed.
func (h *hunt) choose(ctx context.Context, s moment, who string) (watched *procs.Node, killed []*procs.Node) {
	leader, err := h.cluster.Leader(ctx)
	h.must(err)
	nodes := h.shuffled()
	follower := nodes[slices.IndexFunc(nodes, func(n *procs.Node) bool { return n != leader })]
	switch who {
	case "the leader":
		return leader, []*procs.Node{leader}
	case "a follower":
		watched, killed = follower, []*procs.Node{follower}
	default:
		watched, killed = nodes[0], nodes
	}
	if s.leads {
		watched = leader
	}
	return watched, killed
}

// skip is how often a step is let pass first: the third store of a layer is another
// place than the first.
func (h *hunt) skip(s moment) int {
	switch {
	case s.leads:
		return 0
	case s.wants == loss:
		return h.rng.IntN(2)
	}
	return h.rng.IntN(4)
}

// retain sets the retention so that the step may come.
func (h *hunt) retain(ctx context.Context, s moment) {
	c, err := procs.Dial(h.cluster.Nodes...)
	h.must(err)
	defer c.Close()
	var now *api.GetRetentionResponse
	h.retry(ctx, func() (err error) {
		now, err = c.Retention(ctx)
		return err
	})
	want := max(now.Bytes, usuallyKept)
	switch s.wants {
	case merges:
		want = allKept
	case expiry:
		// From allKept down it would take more sections than a round has.
		want = max(min(now.Bytes, usuallyKept)*3/4, leastKept)
	}
	if want != h.kept {
		h.retry(ctx, func() error { return c.SetRetention(ctx, &api.RetentionPolicy{Filter: "**", MaxBytes: want}) })
		h.kept = want
	}
	var rules []*api.RetentionPolicy
	if s.wants == drops {
		rules = append(rules, &api.RetentionPolicy{Filter: ruled, MaxBytes: ruledKept})
	}
	for len(now.Rules) != len(rules) {
		h.retry(ctx, func() (err error) {
			_ = c.SetRules(ctx, now.RulesNumber, rules...) // what came of it is asked
			now, err = c.Retention(ctx)
			return err
		})
	}
}

// retry asks until there is a leader who answers.
func (h *hunt) retry(ctx context.Context, ask func() error) {
	for {
		err := ask()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			h.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// lose removes two files of a node that runs, and lets it look.
func (h *hunt) lose(ctx context.Context, n *procs.Node) {
	list := h.files(ctx, n, false)
	for _, f := range list[len(list)/2:][:min(2, len(list)-len(list)/2)] {
		h.note("lose %s of %s", f.Name, n.Name)
		h.must(os.Remove(filepath.Join(n.Dir, segmentsDir, f.Name)))
	}
	_, _ = h.verify(ctx, n, false) // it may be killed before it has answered
}

// publish sends each publisher's share; the channel is closed when all is answered.
func (h *hunt) publish(ctx context.Context) <-chan struct{} {
	var all sync.WaitGroup
	for _, p := range h.ps {
		all.Go(func() {
			for range share {
				if err := p.publish(ctx, p.draw()); err != nil {
					h.t.Errorf("publisher %d: %v", p.id, err)
					return
				}
			}
			p.answered.Wait()
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	return done
}

// revive starts who was killed.
func (h *hunt) revive(killed []*procs.Node) {
	for _, n := range killed {
		if err := n.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) { // it is waited for
			h.t.Fatal(err)
		}
	}
	for _, n := range killed {
		time.Sleep(time.Duration(h.rng.Int64N(int64(500 * time.Millisecond))))
		h.must(n.Start())
	}
}

// readOn reads what is new from each node alone, and what the readers of the whole cluster
// have not come to: before it may expire.
func (h *hunt) readOn() {
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	var last uint64
	for _, at := range h.rec.History().Attempts {
		last = max(last, at.Seq)
	}
	for i, n := range h.cluster.Nodes {
		h.must(n.AwaitReady(ctx, last))
		var err error
		h.read[i], err = readOn(ctx, h.rec, finals+i, h.read[i], true, []string{"**"}, n)
		h.must(err)
	}
	for i, filters := range filtersOfLive {
		var err error
		h.live[i], err = readOn(ctx, h.rec, i+1, h.live[i], true, filters, h.shuffled()...)
		h.must(err)
	}
}

// report tells how often each step was seen and how often somebody was killed at it, and
// that none was left out in a long form.
func (h *hunt) report() {
	var out strings.Builder
	for _, s := range allSteps {
		seen := 0
		for _, w := range h.watchers {
			w.mu.Lock()
			seen += w.counts[s.name]
			w.mu.Unlock()
		}
		fmt.Fprintf(&out, "\n%v seen %5d, killed", s, seen)
		for _, who := range victims {
			fmt.Fprintf(&out, " %s %d", who, h.hits[s.name][who])
		}
		if *only == "" && *rounds >= len(allSteps) && len(h.hits[s.name]) == 0 {
			h.t.Errorf("nobody was killed at: %s", s.name)
		}
	}
	h.t.Log(out.String())
	for _, n := range h.cluster.Nodes {
		log, err := n.Log()
		h.must(err)
		for _, text := range strings.Split(string(log), "\n") {
			if strings.Contains(text, "differs from the cluster's") || strings.Contains(text, "is abandoned") {
				h.t.Errorf("%s: %s", n.Name, text)
			}
		}
	}
}
