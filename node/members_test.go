package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"chorale/api"
	"chorale/internal/procs"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// town is nodes in this process, over real sockets and folders.
type town struct {
	t     *testing.T
	seeds []string
	nodes map[string]*citizen
}

type citizen struct {
	config Config
	at     Addresses
	cancel context.CancelFunc
	ready  chan Addresses
	ended  chan error
	client api.StreamClient
	admin  api.ClusterClient
}

func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	out, err := procs.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newTown founds a cluster of three.
func newTown(t *testing.T) *town {
	w := &town{t: t, nodes: map[string]*citizen{}}
	w.seeds = freeAddresses(t, 3)
	for i, gossip := range w.seeds {
		w.add(fmt.Sprintf("n%d", i+1), func(c *Config) { c.BootstrapExpect, c.Gossip.Bind = 3, gossip })
	}
	for _, id := range []string{"n1", "n2", "n3"} {
		w.awaitReady(id)
	}
	t.Cleanup(func() {
		for id := range w.nodes {
			if err := w.stop(id); err != nil {
				t.Errorf("%s ended with %v", id, err)
			}
		}
	})
	return w
}

// add starts a node with a new folder.
func (w *town) add(id string, tune func(*Config)) {
	c := single(w.t, w.t.TempDir())
	c.ID, c.Join, c.BootstrapExpect = id, w.seeds, 0
	if tune != nil {
		tune(&c)
	}
	w.nodes[id] = &citizen{config: c}
	w.start(id)
}

func (w *town) start(id string) {
	n := w.nodes[id]
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.ready, n.ended = cancel, make(chan Addresses, 1), make(chan error, 1)
	ready, ended, c := n.ready, n.ended, n.config
	go func() { ended <- runNode(ctx, c, func(a Addresses) { ready <- a }) }()
}

func (w *town) stop(id string) error {
	n := w.nodes[id]
	if n.cancel == nil {
		return nil
	}
	n.cancel()
	n.cancel = nil
	return <-n.ended
}

func (w *town) awaitReady(id string) {
	w.t.Helper()
	n := w.nodes[id]
	select {
	case n.at = <-n.ready:
	case err := <-n.ended:
		n.cancel = nil
		w.t.Fatalf("%s ended: %v", id, err)
	case <-time.After(patience):
		w.t.Fatalf("%s is not ready", id)
	}
	conn, err := grpc.NewClient("passthrough:///"+n.at.API, append(api.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	n.client, n.admin = api.NewStreamClient(conn), api.NewClusterClient(conn)
}

// ends waits for a node that ends by itself, and returns why.
func (w *town) ends(id string) string {
	w.t.Helper()
	n := w.nodes[id]
	select {
	case err := <-n.ended:
		n.cancel()
		n.cancel = nil
		if err == nil {
			w.t.Fatalf("%s ended without an error", id)
		}
		return err.Error()
	case <-time.After(patience):
		w.t.Fatalf("%s does not end", id)
	}
	return ""
}

// change asks a node to change the members, as an operator would: again where there is
// no leader for a moment.
func (w *town) change(via, id string, what api.ChangeMemberRequest_Change) error {
	return settled(func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		defer cancel()
		_, err := w.nodes[via].admin.ChangeMember(ctx, &api.ChangeMemberRequest{Change: what, NodeId: id})
		return err
	})
}

// member is what a node tells of a member, nil if it is not there.
func (w *town) member(via, id string) *api.Member {
	w.t.Helper()
	r, err := w.nodes[via].admin.ListMembers(w.t.Context(), &api.ListMembersRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range r.Members {
		if m.NodeId == id {
			return m
		}
	}
	return nil
}

func (w *town) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-deadline:
			w.t.Fatalf("not in time: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (w *town) untilRole(via, id string, want api.Member_Role) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s is %v", id, want), func() bool { return w.member(via, id).GetRole() == want })
}

// TestMembers: a node joins, votes, is removed, comes back with its old folder and is
// refused, comes back with an empty one and joins; and nobody else takes its id.
func TestMembers(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	publish(t, w.nodes["n1"].client, "a", "x")
	w.add("n4", nil)
	w.awaitReady("n4")
	w.untilRole("n2", "n4", api.Member_VOTER)
	publish(t, w.nodes["n4"].client, "a", "y")
	if got := recoverAll(t, w.nodes["n4"].client); strings.Join(got, " ") != "x y" {
		t.Errorf("the new node delivers %q", got)
	}

	// Two nodes with one id.
	if err := w.stop("n4"); err != nil {
		t.Fatal(err)
	}
	old := w.nodes["n4"]
	w.add("n4", nil)
	wants(t, w.ends("n4"), "n4 is a member with another data folder", "chorale members remove n4")
	w.nodes["n4"] = old
	w.start("n4")
	w.awaitReady("n4")

	if err := w.change("n1", "n4", api.ChangeMemberRequest_REMOVE); err != nil {
		t.Fatal(err)
	}
	wants(t, w.ends("n4"), "n4 was removed from the cluster", "empty its data folder")
	w.untilRole("n1", "n4", api.Member_NONE)
	st, err := w.nodes["n1"].client.GetStatus(t.Context(), &api.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range st.Members { // gossip still knows it
		if m.NodeId == "n4" {
			t.Errorf("status lists the removed node: %v", m)
		}
	}
	w.start("n4")
	wants(t, w.ends("n4"), "n4 was removed from the cluster", "empty its data folder")
	if m := w.member("n3", "n4"); m.GetWish() != api.Member_NONE || m.GetRole() != api.Member_NONE {
		t.Errorf("it is listed as %v", m)
	}

	if err := os.RemoveAll(old.config.Dir); err != nil {
		t.Fatal(err)
	}
	w.start("n4")
	w.awaitReady("n4")
	w.untilRole("n1", "n4", api.Member_VOTER)
	if got := recoverAll(t, w.nodes["n4"].client); strings.Join(got, " ") != "x y" {
		t.Errorf("the node that is back delivers %q", got)
	}
}

// TestRemovedWhileAway: a node that was removed while it did not run learns of it.
func TestRemovedWhileAway(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.add("replica", func(c *Config) { c.NonVoter = true })
	w.awaitReady("replica")
	w.untilRole("n1", "replica", api.Member_NON_VOTER)
	if err := w.stop("n3"); err != nil {
		t.Fatal(err)
	}
	w.until("the loss is noticed", func() bool { return !w.member("n1", "n3").Heard })
	for id, code := range map[string]codes.Code{"nobody": codes.NotFound, "n2": codes.FailedPrecondition, "not an id": codes.InvalidArgument} {
		if err := w.change("n1", id, api.ChangeMemberRequest_REMOVE); status.Code(err) != code {
			t.Errorf("remove %q: %v, want %v", id, err, code)
		}
	}
	if err := w.change("replica", "n3", api.ChangeMemberRequest_REMOVE); err != nil {
		t.Fatal(err)
	}
	w.untilRole("n1", "n3", api.Member_NONE)
	w.nodes["n3"].config.BootstrapExpect = 0
	w.start("n3")
	wants(t, w.ends("n3"), "n3 was removed from the cluster")
	if m := w.member("n1", "replica"); m.Role != api.Member_NON_VOTER || m.Wish != api.Member_NON_VOTER || m.Gossip != "alive" {
		t.Errorf("the replica is %v", m)
	}
	publish(t, w.nodes["replica"].client, "a", "x")
}

// TestNewAddresses: a whole cluster comes back where it has never been.
func TestNewAddresses(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	publish(t, w.nodes["n1"].client, "a", "x")
	ids := []string{"n1", "n2", "n3"}
	for _, id := range ids {
		if err := w.stop(id); err != nil {
			t.Fatal(err)
		}
	}
	w.seeds = freeAddresses(t, 3)
	for i, id := range ids {
		c := &w.nodes[id].config
		c.Join, c.Gossip.Bind = w.seeds, w.seeds[i]
		if err := os.Remove(c.Dir + "/" + peersFile); err != nil {
			t.Fatal(err)
		}
		w.start(id)
	}
	for _, id := range ids {
		before := w.nodes[id].at
		w.awaitReady(id)
		if now := w.nodes[id].at; now.Raft == before.Raft || now.API == before.API {
			t.Errorf("%s is where it was: %v", id, now)
		}
	}
	publish(t, w.nodes["n2"].client, "a", "y")
	for _, id := range ids {
		if got := recoverAll(t, w.nodes[id].client); strings.Join(got, " ") != "x y" {
			t.Errorf("%s delivers %q", id, got)
		}
	}
}

// TestDrain: the leader of three ends well, stays a member and comes back; a second one
// is not spared.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	publish(t, w.nodes["n1"].client, "a", "x")
	drain := func(id string) error {
		return settled(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := w.nodes[id].admin.Drain(ctx, &api.DrainRequest{NodeId: id})
			return err
		})
	}
	leader := ""
	w.until("all are heard", func() bool {
		heard := 0
		for _, id := range []string{"n1", "n2", "n3"} {
			m := w.member("n1", id)
			if m.CaughtUp {
				heard++
			}
			if m.Leader {
				leader = id
			}
		}
		return heard == 3
	})
	if err := drain(leader); err != nil {
		t.Fatal(err)
	}
	n := w.nodes[leader]
	if err := <-n.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	n.cancel()
	n.cancel = nil
	other := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[leader]
	publish(t, w.nodes[other].client, "a", "y")
	w.until("it is seen to be drained", func() bool { return w.member(other, leader).Gossip == "drained" })
	w.until("the loss is noticed", func() bool { m := w.member(other, leader); return m.Role == api.Member_VOTER && !m.Heard })
	if err := drain(other); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the second one: %v", err)
	}
	w.start(leader)
	w.awaitReady(leader)
	publish(t, w.nodes[leader].client, "a", "z")
	w.until("it is alive again", func() bool { return w.member(other, leader).Gossip == "alive" })
	if err := w.stop(leader); err != nil {
		t.Fatal(err)
	}
	w.until("it is seen to have left", func() bool { return w.member(other, leader).Gossip == "left" })
}

// TestDrainTwo: of three nodes two may not go, whether at one time or right one behind the
// other, when nobody has noticed the first yet.
func TestDrainTwo(t *testing.T) {
	t.Parallel()
	for _, atOnce := range []bool{true, false} {
		t.Run(fmt.Sprint("at once ", atOnce), func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			publish(t, w.nodes["n1"].client, "a", "x")
			w.until("all are heard", func() bool {
				return w.member("n1", "n1").CaughtUp && w.member("n1", "n2").CaughtUp && w.member("n1", "n3").CaughtUp
			})
			drain := func(id string) error {
				_, err := w.nodes[id].admin.Drain(t.Context(), &api.DrainRequest{NodeId: id})
				return err
			}
			errs := make([]error, 2)
			var both sync.WaitGroup
			for i, id := range []string{"n1", "n2"} {
				both.Go(func() { errs[i] = drain(id) })
				if !atOnce {
					both.Wait()
				}
			}
			both.Wait()
			if errs[0] == nil && errs[1] == nil {
				t.Error("both were let go")
			}
			for i, id := range []string{"n1", "n2"} {
				if n := w.nodes[id]; errs[i] == nil {
					if err := <-n.ended; err != nil {
						t.Errorf("%s ended with %v", id, err)
					}
					n.cancel()
					n.cancel = nil
				}
			}
			publish(t, w.nodes["n3"].client, "a", "y")
		})
	}
}

// TestFounderVotes: a founder cannot be a read replica.
func TestFounderVotes(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	c.NonVoter = true
	wants(t, refused(t, c), `non-voter = "true"`, "leave out bootstrap-expect")
}
