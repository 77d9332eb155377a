package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"chorale/api"
)

// TestDevGoesOn: the cluster goes on without a node that was drained or removed, and in its
// folder with nodes that it did not have before.
func TestDevGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seq := 0
	during := func(nodes int, f func(a []Addresses, left <-chan string)) {
		log := &testLog{t: t}
		defer log.dumpIfFailed()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		left := make(chan string, nodes)
		err := RunDev(ctx, Dev{
			Nodes: nodes, Dir: dir, LogLevel: "debug", LogOutput: log,
			Left: func(id string, err error) { left <- fmt.Sprint(id, " ", err) },
			Ready: func(a []Addresses) {
				go func() { // the cluster tells more meanwhile
					defer cancel()
					f(a, left)
					seq++
					publish(t, dial(t, a[0].API), "a", "x")
					if got := recoverAll(t, dial(t, a[0].API)); len(got) != seq {
						t.Errorf("of %d messages there are %q", seq, got)
					}
				}()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wait := func(left <-chan string, want string) {
		select {
		case got := <-left:
			wants(t, got, want)
		case <-time.After(patience):
			t.Errorf("nobody has left: want %s", want)
		}
	}
	during(3, func(a []Addresses, left <-chan string) {
		err := settled(func() error {
			_, err := api.NewClusterClient(conn(t, a[1].API)).Drain(t.Context(), &api.DrainRequest{NodeId: "n2"})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		wait(left, "n2 <nil>")
	})
	during(3, func(a []Addresses, left <-chan string) {
		err := settled(func() error {
			_, err := api.NewClusterClient(conn(t, a[0].API)).ChangeMember(t.Context(), &api.ChangeMemberRequest{NodeId: "n3", Change: api.ChangeMemberRequest_REMOVE})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		wait(left, "n3 node n3 was removed")
	})
	during(3, func(a []Addresses, left <-chan string) { wait(left, "n3 node n3 was removed") })
	if err := os.RemoveAll(filepath.Join(dir, "n3")); err != nil {
		t.Fatal(err)
	}
	during(4, func(a []Addresses, left <-chan string) {
		if len(a) != 4 || len(left) > 0 {
			t.Errorf("nodes %v, and %d have left", a, len(left))
		}
	})
}
