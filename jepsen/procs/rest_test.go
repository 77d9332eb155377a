package procs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"chorale/api"
	"chorale/internal/procs"
)

// The folders in a data folder.
const (
	segmentsDir  = "segments"
	partialDir   = "partial"
	snapshotsDir = "raft/snapshots"
)

// settle waits until all nodes have come to rest with the same files, which are all of the
// manifest and nothing else, and lets each read them all. each is called again and again
// meanwhile; over says whether that was all.
func (a *arena) settle(ctx context.Context, each func(), over func() bool) {
	for why := ""; ; time.Sleep(50 * time.Millisecond) {
		each()
		now := a.unrest(ctx)
		if now == "" && over() {
			break
		}
		if ctx.Err() != nil { // the last answer may be only that time is over
			a.t.Fatalf("the nodes do not come to rest: %s", cmp.Or(why, now))
		}
		why = now
	}
	for _, n := range a.cluster.Nodes {
		for _, f := range a.files(ctx, n, true) {
			if f.State == api.FileCheck_BAD {
				a.t.Errorf("%s has a bad file: %s: %s", n.Name, f.Name, f.Why)
			}
		}
	}
}

// unrest is why the nodes are not at rest; "" if they are.
func (a *arena) unrest(ctx context.Context) string {
	var first []string
	for _, n := range a.cluster.Nodes {
		asked, cancel := context.WithTimeout(ctx, 2*time.Second)
		list, err := a.verify(asked, n, false)
		cancel()
		if err != nil {
			return fmt.Sprintf("%s: %v", n.Name, err)
		}
		var has []string
		for _, f := range list {
			if f.State != api.FileCheck_HERE {
				return fmt.Sprintf("%s: %s is %s", n.Name, f.Name, f.State)
			}
			has = append(has, f.Name)
		}
		slices.Sort(has)
		if n == a.cluster.Nodes[0] {
			first = has
		} else if !slices.Equal(first, has) {
			return fmt.Sprintf("the manifest of %s has %q,\nthat of %s %q", n.Name, has, a.cluster.Nodes[0].Name, first)
		}
		found, orphans := a.found(n)
		if !slices.Equal(found, has) {
			return fmt.Sprintf("%s has the files %q,\nits manifest names %q", n.Name, found, has)
		}
		if len(orphans) > 0 {
			return fmt.Sprintf("%s has left %q behind", n.Name, orphans)
		}
		if why := a.busy(ctx, n); why != "" {
			return fmt.Sprintf("%s: %s", n.Name, why)
		}
	}
	return ""
}

// busy is what a node says that it has still to do.
func (a *arena) busy(ctx context.Context, n *procs.Node) string {
	c, err := procs.Dial(n)
	a.must(err)
	defer c.Close()
	s, err := c.Status(ctx, n.API)
	switch {
	case err != nil:
		return err.Error()
	case s.NotReady != "":
		return s.NotReady
	case s.History.Plan != 0:
		return fmt.Sprintf("plan %d is being built", s.History.Plan)
	}
	return ""
}

// found lists the data files of a node by name, and whatever else is unfinished or put
// aside anywhere in its folder.
func (a *arena) found(n *procs.Node) (data, orphans []string) {
	err := filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(n.Dir, path)
		ext := filepath.Ext(name)
		switch {
		case filepath.Dir(name) == segmentsDir && (ext == ".seg" || ext == ".store"):
			data = append(data, filepath.Base(name))
		case filepath.Dir(name) == segmentsDir, filepath.Dir(name) == partialDir, ext == ".tmp":
			orphans = append(orphans, name)
		}
		return nil
	})
	a.must(err)
	slices.Sort(data)
	return data, orphans
}

// files is verify of a node that answers.
func (a *arena) files(ctx context.Context, n *procs.Node, deep bool) []*api.FileCheck {
	list, err := a.verify(ctx, n, deep)
	a.must(err)
	return list
}

// verify lists the files of a node's manifest, and what it has of each.
func (a *arena) verify(ctx context.Context, n *procs.Node, deep bool) (out []*api.FileCheck, err error) {
	c, err := procs.Dial(n)
	a.must(err)
	defer c.Close()
	q := &api.VerifyFilesRequest{Deep: deep}
	for more := true; more && err == nil; {
		err = c.Cluster(ctx, func(ctx context.Context, node api.ClusterClient) error {
			r, err := node.VerifyFiles(ctx, q)
			if err != nil {
				return err
			}
			out = append(out, r.Files...)
			if more = r.More; more {
				q.AfterSeq, q.AfterHash = r.Files[len(r.Files)-1].FirstSeq, r.Files[len(r.Files)-1].Hash
			}
			return nil
		})
	}
	return out, err
}
