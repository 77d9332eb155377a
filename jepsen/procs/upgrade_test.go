package procs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/api"
	"chorale/internal/procs"
)

const (
	// away is how long a leader takes a member for alive that has stopped, and more: what
	// it would do without that one it has done by then.
	away = 6 * time.Second
	// members is the level of the log that the list of members came with.
	members = 4
)

// TestUpgrade upgrades three nodes one by one while publishers publish and readers read;
// first from an earlier version, then to a version to come. What is new is refused until
// all can do it; an upgraded node goes back as long as one was not upgraded; and one that
// comes back with an old version afterwards refuses, and loses nothing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *judged != "" {
		t.Skip("a history is judged again")
	}
	// A real earlier version says in its own words why it does not start.
	newest := newestOf(t, program)
	early, later, refusal, next := *old, "", "", buildOf(t, newest+1)
	if early == "" {
		early, later, refusal = buildOf(t, members-1), "member", "upgrade this node"
	}
	a := newArenaOf(t, *seed, early, known(t, early)...)
	end := a.traffic(a.shuffled)
	a.upgrade(early, program, uint32(newest), later)
	a.comesBack(a.cluster.Nodes[a.rng.IntN(3)], early, program, refusal)
	if later != "" {
		a.changes(nil)
	}
	a.upgrade(program, next, uint32(newest+1), "")
	a.comesBack(a.cluster.Nodes[a.rng.IntN(3)], program, next, fmt.Sprintf("log is at level %d, and this build %s", newest+1, refused(newest)))
	a.stranger(program, refused(newest))
	end()
}

// newestOf is the newest level of the log that a binary reads.
func newestOf(t *testing.T, binary string) (level int) {
	out, err := exec.Command(binary, "version").Output()
	_, levels, ok := strings.Cut(string(out), "log levels 1 to ")
	if _, bad := fmt.Sscan(levels, &level); err != nil || !ok || bad != nil {
		t.Fatalf("the version of %s is %q: %v", binary, out, err)
	}
	return level
}

// refused is how a build that reads no more than a level refuses a log of the next one.
func refused(newest int) string {
	return fmt.Sprintf("reads levels 1 to %d: upgrade this node (of%d or a later version)", newest, newest+1)
}

// buildOf is a build of this tree that reads the log up to a level: up to there it is what
// a version of that level was.
func buildOf(t *testing.T, level int) string {
	binary := filepath.Join(folder, fmt.Sprintf("chorale-of-%d", level))
	if err := procs.Build(binary, fmt.Sprintf("-X main.version=of%d -X chorale/raftfsm/level.built=%d", level, level)); err != nil {
		t.Fatal(err)
	}
	return binary
}

// known are arguments that lead to snapshots, if the binary knows them.
func known(t *testing.T, binary string) []string {
	out, err := exec.Command(binary, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if bytes.Contains(out, []byte("--snapshot-size")) {
		return []string{"--snapshot-size", "1MiB"}
	}
	return nil
}

// upgrade takes all nodes from one binary to another, after which the log is at a level. A
// change of members is refused meanwhile if that is named.
func (a *arena) upgrade(from, to string, level uint32, refused string) {
	a.t.Helper()
	nodes := a.shuffled()
	a.swap(nodes[0], to)
	a.swap(nodes[1], to)
	a.note("%s goes back", nodes[0].Name)
	a.swap(nodes[0], from)
	a.swap(nodes[0], to)
	if refused != "" {
		a.changes([]string{refused + " came with level 4 of the log, and level 3 is in use", "node " + nodes[2].Name + " runs version of3", "Upgrade every node"})
	}
	a.note("%s is away", nodes[2].Name)
	a.end(nodes[2])
	time.Sleep(away)
	if refused != "" {
		a.changes([]string{refused + " came with level 4", "node " + nodes[2].Name + " does not answer"})
	}
	if st := a.level(nodes[0]); st.GetInUse() >= level {
		a.t.Errorf("the log is at level %d while a member is away: %v", st.InUse, st)
	}
	a.held(nodes[:2], fmt.Sprintf("level %d waits: node %s does not answer", level, nodes[2].Name))
	a.must(nodes[2].Start()) // as it was
	a.ready(nodes[2])
	a.held(nodes[:2], fmt.Sprintf("level %d waits: node %s runs ", level, nodes[2].Name))
	if refused != "" {
		a.changes([]string{refused + " came with level 4"})
	}
	a.swap(nodes[2], to)
	for _, n := range nodes {
		a.eventually(func() (bool, error) {
			st := a.level(n)
			return st.GetInUse() == level, fmt.Errorf("node %s: %v", n.Name, st)
		})
	}
	a.note("the log is at level %d", level)
}

// swap starts a node with another binary: ended gently, or killed.
func (a *arena) swap(n *procs.Node, binary string) {
	a.t.Helper()
	a.note("%s runs %s", n.Name, filepath.Base(binary))
	if a.rng.IntN(2) == 0 {
		a.end(n)
	} else {
		a.must(n.Kill())
	}
	n.Use(binary)
	a.must(n.Start())
	a.ready(n)
}

func (a *arena) end(n *procs.Node) { (&procs.Cluster{Nodes: []*procs.Node{n}}).Stop() }

func (a *arena) ready(n *procs.Node) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	a.must(n.AwaitReady(ctx, 0))
}

func (a *arena) level(n *procs.Node) *api.LevelStatus {
	a.t.Helper()
	c, err := procs.Dial(n)
	a.must(err)
	defer c.Close()
	st, err := c.Status(a.t.Context(), n.API)
	a.must(err)
	return st.Level
}

// held waits until one of the nodes, the leader if it is a new one, says why the level is
// no higher one. Where an old one leads, nobody does.
func (a *arena) held(nodes []*procs.Node, why string) {
	a.t.Helper()
	a.eventually(func() (bool, error) {
		leader, err := a.cluster.Leader(a.t.Context())
		a.must(err)
		said := a.level(leader).GetHeld()
		return !slices.Contains(nodes, leader) || strings.Contains(said, why), fmt.Errorf("%s says %q, want %q", leader.Name, said, why)
	})
}

// changes invites a node and takes that back, or is refused with all of these words, as
// soon as the leader knows who is there.
func (a *arena) changes(refusal []string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	c, err := procs.Dial(a.cluster.Nodes...)
	a.must(err)
	defer c.Close()
	ask := func(change api.ChangeMemberRequest_Change) error {
		return c.Cluster(ctx, func(ctx context.Context, c api.ClusterClient) error {
			_, err := c.ChangeMember(ctx, &api.ChangeMemberRequest{Change: change, NodeId: "n9"})
			return err
		})
	}
	if refusal != nil {
		a.eventually(func() (bool, error) {
			err := ask(api.ChangeMemberRequest_ADD)
			if err == nil {
				a.t.Fatal("a change of members is not refused")
			}
			lacks := func(words string) bool { return !strings.Contains(err.Error(), words) }
			return !slices.ContainsFunc(refusal, lacks), err
		})
		return
	}
	for _, change := range []api.ChangeMemberRequest_Change{api.ChangeMemberRequest_ADD, api.ChangeMemberRequest_REMOVE} {
		a.eventually(func() (bool, error) {
			err := ask(change)
			return err == nil, err
		})
	}
}

// eventually waits until something is as it should be, or shows how it was last.
func (a *arena) eventually(is func() (bool, error)) {
	a.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		ok, was := is()
		if ok {
			return
		}
		if time.Now().After(late) {
			a.t.Fatalf("not in time; it is: %v", was)
		}
	}
}

// comesBack starts a node with a binary that does not read the log any more: it says so, at
// the second time without touching anything, and goes on with one that does.
func (a *arena) comesBack(n *procs.Node, with, without, want string) {
	a.t.Helper()
	a.note("%s comes back with %s", n.Name, filepath.Base(with))
	a.end(n)
	n.Use(with)
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for try := range 2 {
		before := a.folder(n)
		log, err := n.Log()
		a.must(err)
		a.must(n.Start())
		said, err := n.Ended(ctx)
		a.must(err)
		if with == *old { // some say it in another line than the last
			all, err := n.Log()
			a.must(err)
			said = string(all[len(log):])
		}
		if !strings.Contains(said, want) {
			a.t.Errorf("%s, the %d. time, ends with %q, want %q", filepath.Base(with), try+1, said, want)
		}
		if after := a.folder(n); with == program && after != before {
			a.t.Errorf("%s, the %d. time, changed its folder from\n%s\nto\n%s", filepath.Base(with), try+1, before, after)
		}
	}
	n.Use(without)
	a.must(n.Start())
	a.ready(n)
}

// folder is a line for each file of a node.
func (a *arena) folder(n *procs.Node) string {
	var out strings.Builder
	a.must(filepath.WalkDir(n.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s %x\n", path, sha256.Sum256(b))
		return err
	}))
	return out.String()
}

// stranger asks to join with a version that does not read the log.
func (a *arena) stranger(binary, want string) {
	a.t.Helper()
	n, err := a.cluster.Joiner("n4")
	a.must(err)
	n.Use(binary)
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	a.must(n.Start())
	said, err := n.Ended(ctx)
	a.must(err)
	if !strings.Contains(said, want) {
		a.t.Errorf("it is refused with %q, want %q", said, want)
	}
}
