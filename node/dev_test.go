package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"chorale/api"
)

// TestDevExpects: who founds with whom, by what the folders remember.
func TestDevExpects(t *testing.T) {
	const cluster = `"cluster_id":"c"`
	founder, added := `{"node_id":"n",`+cluster+`,"bootstrap_expect":3}`, `{"node_id":"n",`+cluster+`}`
	begun := `{"node_id":"n"}`
	for name, test := range map[string]struct {
		folders []string // of n1 and so on; "" is none
		nodes   int
		want    []int
	}{
		"none":                    {nil, 3, []int{3, 3, 3}},
		"founding is not over":    {[]string{begun, `{"node_id":"n","bootstrap_expect":3}`}, 3, []int{3, 3, 3}},
		"founded":                 {[]string{founder, founder, founder}, 3, []int{3, 3, 3}},
		"one has not heard of it": {[]string{founder, founder, begun}, 3, []int{3, 3, 3}},
		"one is wiped":            {[]string{founder, founder, ""}, 3, []int{3, 3, 0}},
		"one was added":           {[]string{founder, founder, founder, added}, 4, []int{3, 3, 3, 0}},
		"more":                    {[]string{founder, founder, founder}, 5, []int{3, 3, 3, 0, 0}},
		"fewer":                   {[]string{founder, founder, founder}, 2, []int{3, 3}},
		"the first is wiped":      {[]string{"", founder, founder}, 1, []int{0}},
		"one cannot be read":      {[]string{founder, "{", founder}, 3, []int{3, 0, 3}},
		"one found it by itself":  {[]string{`{"node_id":"n",` + cluster + `,"bootstrap_expect":1}`}, 3, []int{1, 0, 0}},
	} {
		dir := t.TempDir()
		for i, identity := range test.folders {
			if identity == "" {
				continue
			}
			folder := filepath.Join(dir, fmt.Sprintf("n%d", i+1))
			if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, identityFile), []byte(identity), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if got := (Dev{Nodes: test.nodes, Dir: dir}).expect(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

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
