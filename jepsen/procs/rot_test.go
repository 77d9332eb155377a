package procs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorale/api"
	"chorale/internal/procs"
	"chorale/segments/format"
)

// TestRot damages a segment and a store on all nodes of three that run, at different places
// of each region, so that nobody has a sound copy: a bit flipped on each; a tail cut on one
// and bits flipped on the others; the file removed on one, and so; and several places on
// each. Somebody reads meanwhile, and gets every message as it was. Then all nodes have the
// file as it was, put together from what they had left.
func TestRot(t *testing.T) {
	t.Parallel()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	a := atRest(ctx, t)
	turns := 0
	for _, kind := range []string{".seg", ".store"} {
		turns = a.rots(ctx, kind, turns)
	}
	for _, n := range a.cluster.Nodes {
		for _, f := range a.files(ctx, n, true) {
			if f.State != api.FileCheck_HERE {
				t.Errorf("%s of %s is %v: %s", f.Name, n.Name, f.State, f.Why)
			}
		}
	}
	mended := 0
	for _, n := range a.cluster.Nodes {
		log, err := n.Log()
		a.must(err)
		mended += strings.Count(string(log), "was put together from damaged copies")
	}
	a.note("%d times a file was damaged on all nodes, %d times one was put together", turns, mended)
	if mended < turns {
		t.Error("a file has come from elsewhere")
	}
	a.judge()
}

// rots goes through the regions of the oldest file of a kind, and counts the turns on.
func (a *arena) rots(ctx context.Context, kind string, turns int) int {
	path, want := a.oldest(ctx, a.cluster.Nodes[0], kind)
	f, err := format.Open(bytes.NewReader(want), int64(len(want)), path)
	a.must(err)
	regions, err := f.Regions(bytes.NewReader(want))
	a.must(err)
	blocks := 0
	for _, r := range regions {
		if oneBlock.MatchString(r.Name) {
			if blocks++; blocks > 4 { // they are alike
				continue
			}
		}
		a.rot(filepath.Base(path), want, r, turns)
		met := a.cluster.Nodes[turns%3]
		a.must(read(ctx, a.rec, firstExtra+a.sessions(), true, []string{"**"}, met))
		for _, n := range a.cluster.Nodes {
			a.files(ctx, n, true)
		}
		for _, n := range a.cluster.Nodes {
			a.comes(ctx, n, filepath.Base(path), want)
		}
		turns++
	}
	return turns
}

// rot damages a file on every node, in a third of a region that is the node's alone.
func (a *arena) rot(name string, want []byte, r format.Region, turn int) {
	for i := range a.cluster.Nodes {
		n := a.cluster.Nodes[(turn+i)%3]
		path, third := filepath.Join(n.Dir, segmentsDir, name), r.Off+r.Bytes*int64(i)/3
		what := [4][3]string{
			{"flip", "flip", "flip"}, {"flip", "cut", "flip"}, {"remove", "flip", "flip"}, {"flips", "flips", "flips"},
		}[turn%4][i]
		a.note("%s: %s in the %s of %s", n.Name, what, r.Name, name)
		switch what {
		case "remove":
			a.must(os.Remove(path))
		case "cut":
			a.must(os.Truncate(path, third))
		case "flips": // and others, where nobody else has any
			for at := int64(i); at < int64(len(want)); at += int64(len(want))/5*3 + 3 {
				a.flip(path, at)
			}
			fallthrough
		default:
			a.flip(path, third+a.rng.Int64N(max(r.Bytes/3, 1)))
		}
	}
}

// comes waits until a node has a file as it was.
func (a *arena) comes(ctx context.Context, n *procs.Node, name string, want []byte) {
	path := filepath.Join(n.Dir, segmentsDir, name)
	for {
		if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, want) {
			break
		}
		if ctx.Err() != nil {
			a.t.Fatalf("%s does not come back", path)
		}
		time.Sleep(20 * time.Millisecond)
	}
	a.must(n.AwaitReady(ctx, 0))
}
