package procs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"chorale/internal/procs"
	"chorale/jepsen/check"
	"chorale/jepsen/history"
)

const (
	publishers = 4
	// finals are the readers that read everything from one node each at the end.
	finals = 100
	// patience bounds what a healthy cluster must do.
	patience = 90 * time.Second
)

// arena is a cluster with its traffic.
type arena struct {
	t       *testing.T
	rng     *rand.Rand
	rec     *record
	cluster *procs.Cluster
}

// small is so small that a few rounds leave dozens of segments and outgrow the tip.
var small = []string{"--segment-size", "256KiB", "--tip-size", "1MiB"}

func newArena(t *testing.T, seed uint64) *arena { return newArenaOf(t, seed, program) }

// newArenaOf starts with another binary than the one under test.
func newArenaOf(t *testing.T, seed uint64, binary string, extra ...string) *arena {
	return newArenaWith(t, seed, binary, append(extra, small...)...)
}

// newArenaWith has nodes with these flags alone.
func newArenaWith(t *testing.T, seed uint64, binary string, flags ...string) *arena {
	c, err := procs.New(binary, t.TempDir(), 3, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return started(t, seed, c)
}

// started is the arena of a cluster that it starts.
func started(t *testing.T, seed uint64, c *procs.Cluster) *arena {
	a := &arena{t: t, rng: rand.New(rand.NewPCG(seed, 7)), rec: &record{}, cluster: c}
	t.Cleanup(func() {
		if t.Failed() {
			c.PrintLogs(os.Stderr)
		}
		c.Stop()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.must(c.Start(ctx))
	return a
}

func (a *arena) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *arena) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.t.Log(text)
	a.rec.Fault(time.Now().UnixNano(), text)
}

// TestRounds kills one, two and all nodes and pauses the leader, in turn, while
// four publishers publish.
func TestRounds(t *testing.T) {
	t.Parallel()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	a := newArena(t, *seed)
	end := a.traffic(a.shuffled)
	for round := range *rounds {
		a.round(round)
	}
	end()
}

// traffic lets publishers publish and readers read, each through the nodes that it is told, until
// end: then everything is read from each node, and judged.
func (a *arena) traffic(nodes func() []*procs.Node) (end func()) {
	ctx, stop := context.WithCancel(a.t.Context())
	var clients sync.WaitGroup
	var ps []*publisher
	for i := range publishers {
		p, err := newPublisher(a.rec, i+1, few, nodes()...)
		a.must(err)
		ps = append(ps, p)
		clients.Go(func() { p.run(ctx) })
	}
	for i, filters := range [][]string{{"**"}, {"shared/**", "app/p1/*"}} {
		known := nodes() // the source of chance is for one goroutine
		clients.Go(func() {
			if err := read(ctx, a.rec, i+1, false, filters, known...); err != nil {
				a.t.Error(err)
			}
		})
	}
	return func() {
		for _, p := range ps { // what is under way is answered first
			a.close(p)
		}
		stop()
		clients.Wait()
		a.readAll()
		a.judge()
	}
}

func (a *arena) close(p *publisher) {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	if err := p.close(ctx); err != nil {
		a.t.Errorf("publisher %d: %v", p.id, err)
	}
}

func (a *arena) shuffled() []*procs.Node {
	out := append([]*procs.Node(nil), a.cluster.Nodes...)
	a.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// round does one harm and waits until all nodes are well again.
func (a *arena) round(n int) {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	pause := func(most time.Duration) { time.Sleep(time.Duration(a.rng.Int64N(int64(most)))) }
	time.Sleep(300 * time.Millisecond)
	pause(700 * time.Millisecond)
	leader, err := a.cluster.Leader(ctx)
	a.must(err)
	victims := a.shuffled()
	switch n % 5 {
	case 0:
		victims = []*procs.Node{leader}
	case 1:
		victims = victims[:2]
	case 3:
		a.paused(leader)
		victims = nil
	case 4:
		victims = victims[:1]
	}
	for _, v := range victims {
		a.note("round %d: kill %s", n, v.Name)
		a.must(v.Kill())
	}
	pause(time.Second)
	for _, v := range victims {
		a.must(v.Start())
		pause(300 * time.Millisecond)
	}
	for _, node := range a.cluster.Nodes {
		a.must(node.AwaitReady(ctx, 0))
	}
}

// paused stops a process for longer than every timer of Raft, so that the others
// elect, and lets it go on in the belief that it leads.
func (a *arena) paused(n *procs.Node) {
	a.note("pause %s", n.Name)
	a.must(n.Signal(syscall.SIGSTOP))
	time.Sleep(2 * time.Second)
	a.must(n.Signal(syscall.SIGCONT))
}

// readAll reads everything from each node alone.
func (a *arena) readAll() {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	var last uint64
	for _, at := range a.rec.History().Attempts {
		last = max(last, at.Seq)
	}
	for i, n := range a.cluster.Nodes {
		a.must(n.AwaitReady(ctx, last))
		a.must(read(ctx, a.rec, finals+i, true, []string{"**"}, n))
	}
}

// judge looks for anomalies and keeps the history if there are any.
func (a *arena) judge() {
	h := a.rec.History()
	judge(a.t, h)
	dir := *keep
	if dir == "" && a.t.Failed() {
		dir = os.TempDir()
	}
	if dir == "" {
		return
	}
	name := filepath.Join(dir, fmt.Sprintf("chorale-history-%d.jsonl", time.Now().Unix()))
	f, err := os.Create(name)
	a.must(err)
	a.must(h.Write(f))
	a.must(f.Close())
	a.t.Logf("judge it again: go test ./jepsen/procs -run TestJudge -v -args -history %s", name)
}

func judge(t *testing.T, h *history.History) {
	streams := map[int][]history.Message{}
	for _, r := range h.Reads {
		if r.Reader >= finals && r.Reader < recovered {
			streams[r.Reader-finals] = append(streams[r.Reader-finals], r.Messages...)
		}
	}
	found := check.All(h, streams[0])
	for i := 1; i < len(streams); i++ {
		found = append(found, check.Same("n1", streams[0], fmt.Sprintf("n%d", i+1), streams[i])...)
	}
	if len(streams) < 2 {
		t.Errorf("the history holds the streams of %d nodes", len(streams))
	}
	acknowledged := 0
	for _, a := range h.Attempts {
		if a.Result == history.Stored || a.Result == history.Duplicate {
			acknowledged++
		}
	}
	t.Logf("%d units, %d acknowledged, %d messages in the stream of each of %d nodes, %d findings",
		len(h.Units), acknowledged, len(streams[0]), len(streams), len(found))
	for _, f := range found {
		t.Error(f)
	}
}

// TestJudge judges a kept history again.
func TestJudge(t *testing.T) {
	if *judged == "" {
		t.Skip("no -history is given")
	}
	f, err := os.Open(*judged)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, h)
}
