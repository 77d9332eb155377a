package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"chorale/api"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rescue makes the node of a folder the only voter of a cluster of its own.
func rescue(t *testing.T, dir string) (cluster string) {
	t.Helper()
	s, err := OpenSurvivor(dir)
	if err != nil {
		t.Fatal(err)
	}
	if cluster, err = s.Recover(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestLostComeBack: one of three was recovered, and then both of the others come back
// after all. They go on as the cluster that they were; neither of the two touches the
// other, under the same ids and addresses; and emptied they join the recovered one.
func TestLostComeBack(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	publish(t, w.nodes["n1"].client, "a", "x")
	for _, id := range []string{"n1", "n2", "n3"} {
		w.until(id+" has it", func() bool { return len(recoverAll(t, w.nodes[id].client)) == 1 })
	}
	for _, id := range []string{"n1", "n3"} {
		if err := w.stop(id); err != nil {
			t.Fatal(err)
		}
	}
	rescue(t, w.nodes["n1"].config.Dir)
	w.start("n1") // n2 still runs
	w.awaitReady("n1")
	publish(t, w.nodes["n1"].client, "a", "recovered")
	says := func(id, what string) {
		w.until(id+" says "+what, func() bool { return w.nodes[id].config.LogOutput.(*testLog).says(what) })
	}
	says("n1", "a node of the cluster that this one was recovered from still runs and is left alone")
	says("n2", "a node of another cluster is in the gossip and is left alone")

	w.nodes["n3"].config.Join = w.seeds[1:2]
	w.start("n3")
	w.awaitReady("n3")
	publish(t, w.nodes["n3"].client, "a", "back")
	publish(t, w.nodes["n1"].client, "a", "recovered too")
	for id, want := range map[string]string{"n1": "x recovered recovered too", "n2": "x back", "n3": "x back"} {
		w.until(id+" has "+want, func() bool { return strings.Join(recoverAll(t, w.nodes[id].client), " ") == want })
	}
	if m := w.member("n1", "n2"); m.GetRole() != api.Member_NONE || m.GetWish() != api.Member_NONE {
		t.Errorf("the recovered node says of n2 %v", m)
	}

	for _, id := range []string{"n2", "n3"} {
		if err := w.stop(id); err != nil {
			t.Fatal(err)
		}
		c := &w.nodes[id].config
		if err := os.RemoveAll(c.Dir); err != nil {
			t.Fatal(err)
		}
		c.BootstrapExpect, c.Join = 0, w.seeds[:1]
	}
	for _, id := range []string{"n2", "n3"} {
		w.start(id)
		w.awaitReady(id)
		w.untilRole("n1", id, api.Member_VOTER)
		if got := strings.Join(recoverAll(t, w.nodes[id].client), " "); got != "x recovered recovered too" {
			t.Errorf("%s delivers %q", id, got)
		}
	}
}

// TestRecoverReplica: what is left is a read replica. It votes from now on; a position of
// before is refused, since it may lie in what was lost.
func TestRecoverReplica(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.add("replica", func(c *Config) { c.NonVoter = true })
	w.awaitReady("replica")
	w.untilRole("n1", "replica", api.Member_NON_VOTER)
	publish(t, w.nodes["replica"].client, "a", "x")
	before, err := w.nodes["replica"].client.GetStatus(t.Context(), &api.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for id := range w.nodes {
		if err := w.stop(id); err != nil {
			t.Fatal(err)
		}
	}
	rescue(t, w.nodes["replica"].config.Dir)
	w.start("replica")
	w.awaitReady("replica")
	publish(t, w.nodes["replica"].client, "a", "y")
	if got := strings.Join(recoverAll(t, w.nodes["replica"].client), " "); got != "x y" {
		t.Errorf("it delivers %q", got)
	}
	stream, err := w.nodes["replica"].client.Subscribe(t.Context(), &api.SubscribeRequest{
		Filters: []string{"**"}, ClusterId: before.ClusterId, Start: &api.SubscribeRequest_AfterSeq{AfterSeq: 1},
	})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("a position of before: %v", err)
	}
	if m := w.member("replica", "replica"); m.Role != api.Member_VOTER || m.Wish != api.Member_VOTER {
		t.Errorf("it is %v", m)
	}
}

// TestRecoverBrokenOff: a recovery that did not end keeps the node from starting until it
// is repeated, whatever of it was done.
func TestRecoverBrokenOff(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s, err := OpenSurvivor(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, s.Refusal().Error(), "node solo is the only voter of its cluster already")
	wants(t, refused(t, c), "in use by another process")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(c.Dir, identityFile))
	if err != nil {
		t.Fatal(err)
	}
	edit(t, c.Dir, func(i *identity) { i.Recovering = true })
	wants(t, refused(t, c), "recover-quorum began here and did not end: run it again")
	rescue(t, c.Dir)
	// As if it had ended before the new identity was written.
	if err := os.WriteFile(filepath.Join(c.Dir, identityFile), before, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, c), "belongs to cluster")
	edit(t, c.Dir, func(i *identity) { i.Recovering = true })
	rescue(t, c.Dir)
	a, _ := boot(t, c)
	publish(t, dial(t, a.API), "a", "x")
}

// TestNoSurvivor: folders that are none are refused, and nothing is made in them.
func TestNoSurvivor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	_, err := OpenSurvivor(dir)
	wants(t, err.Error(), "has no identity.json")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
	c := single(t, t.TempDir())
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.Dir, raftDir)); err != nil {
		t.Fatal(err)
	}
	_, err = OpenSurvivor(c.Dir)
	wants(t, err.Error(), "has no raft/raft.db")
}

// TestRecoverAsRoot: what root does to a folder of another user is that user's.
func TestRecoverAsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const user = 65532
	c := single(t, t.TempDir())
	_, stop := boot(t, c)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	edit(t, c.Dir, func(i *identity) { i.Recovering = true })
	if err := os.Lchown(c.Dir, user, user); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(c.Dir, link); err != nil {
		t.Fatal(err)
	}
	rescue(t, link)
	err := filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != user || st.Gid != user {
			t.Errorf("%s is not the user's", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
