package procs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chorale/api"
	"chorale/internal/procs"
	"chorale/segments/format"
)

// TestFlips flips a bit in each region of a segment and of a store, as the format lists
// them, on one node of three that run. Who reads from that node gets every message as it
// was; the node finds the damage, names file and region, and has the file as it was
// again. Every other time it is a reader who meets the damage first.
func TestFlips(t *testing.T) {
	t.Parallel()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	a := atRest(ctx, t)
	for i, n := range a.cluster.Nodes {
		for _, kind := range []string{".seg", ".store"} {
			a.flips(ctx, n, kind, i)
		}
	}
	a.judge()
}

// atRest is a cluster with segments and stores that stay as they are, the oldest of each of
// messages that are not in memory any more.
func atRest(ctx context.Context, t *testing.T) *arena {
	t.Helper()
	a := newArenaWith(t, *seed, program, "--segment-size", "64KiB", "--store-size", "64KiB", "--tip-size", "1MiB")
	fill := func(id int) {
		p, err := newPublisher(a.rec, id, 4, a.shuffled()...)
		a.must(err)
		p.size = payload
		for range 600 { // 2.4 MiB: more than the tip holds
			a.must(p.publish(ctx, p.draw()))
		}
		a.close(p)
		a.settle(ctx, func() {}, func() bool { return true })
	}
	fill(1)
	a.cluster.Stop() // and go on without further plans: the files are to stay
	for _, n := range a.cluster.Nodes {
		n.With("--compact=false")
	}
	a.must(a.cluster.Start(ctx))
	fill(2)
	a.readAll()
	return a
}

var oneBlock = regexp.MustCompile(`^block \d+$`)

// flips goes through the regions of the oldest file of a kind on a node.
func (a *arena) flips(ctx context.Context, n *procs.Node, kind string, turn int) {
	path, want := a.oldest(ctx, n, kind)
	f, err := format.Open(bytes.NewReader(want), int64(len(want)), path)
	a.must(err)
	regions, err := f.Regions(bytes.NewReader(want))
	a.must(err)
	blocks := 0
	for i, r := range regions {
		if oneBlock.MatchString(r.Name) {
			if blocks++; blocks > 3 { // they are alike
				continue
			}
		}
		a.flip(path, r.Off+a.rng.Int64N(r.Bytes))
		a.note("a bit of the %s of %s flips on %s", r.Name, filepath.Base(path), n.Name)
		met := (i+turn)%2 == 0
		if met {
			a.must(read(ctx, a.rec, firstExtra+a.sessions(), true, []string{"**"}, n))
		}
		a.named(ctx, n, path, r.Name, met)
		a.comes(ctx, n, filepath.Base(path), want)
	}
}

// flip flips a bit of a byte of a file.
func (a *arena) flip(path string, off int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	a.must(err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	a.must(err)
	b[0] ^= 1 << a.rng.IntN(8)
	_, err = f.WriteAt(b, off)
	a.must(err)
	a.must(f.Close())
}

// firstExtra is the first of the readers that read in between.
const firstExtra = 10

// sessions is how many readers there were.
func (a *arena) sessions() int { return len(a.rec.History().Reads) }

// named lets a node read its files, and checks that it speaks of the damage: in its answer,
// or, if a reader may have met it before, in its log.
func (a *arena) named(ctx context.Context, n *procs.Node, path, region string, met bool) {
	var found []*api.FileCheck
	for _, f := range a.files(ctx, n, true) {
		if f.State == api.FileCheck_BAD {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 1 && found[0].Name == filepath.Base(path) && strings.Contains(found[0].Why, region+": "):
	case len(found) == 0 && met:
		log, err := n.Log()
		a.must(err)
		lines := strings.Split(string(log), "\n")
		if !slices.ContainsFunc(lines, func(s string) bool {
			return strings.Contains(s, "is not as it should be") && strings.Contains(s, filepath.Base(path))
		}) {
			a.t.Errorf("a reader has met the damage of %s, and the log of %s does not tell of it", path, n.Name)
		}
	default:
		a.t.Errorf("a bit of the %s of %s was flipped on %s; it found %v", region, filepath.Base(path), n.Name, found)
	}
}

// oldest is the oldest file of a kind on a node.
func (a *arena) oldest(ctx context.Context, n *procs.Node, kind string) (path string, content []byte) {
	for _, f := range a.files(ctx, n, false) {
		if filepath.Ext(f.Name) == kind {
			path = filepath.Join(n.Dir, segmentsDir, f.Name)
			content, err := os.ReadFile(path)
			a.must(err)
			return path, content
		}
	}
	a.t.Fatalf("%s has no %s", n.Name, kind)
	return "", nil
}
