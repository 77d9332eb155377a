package startup

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestStartup: a node is ready behind an orderly end and behind a kill, with all its topics
// and a tip that is full again.
func TestStartup(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "chorale")
	if out, err := exec.Command("go", "build", "-o", binary, "chorale/cmd/chorale").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := Run(t.Context(), Options{
		Binary: binary, Dir: t.TempDir(), Messages: 20_000, Topics: 3000, Few: 10, Payload: 32, TipBytes: 1 << 20,
		Args:     []string{"--segment-size", "256KiB", "--snapshot-size", "1MiB"}, // so that there are files
		Calm:     time.Second,
		Patience: 5 * time.Minute, Step: func(what string) { t.Log(what) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	for i, want := range []int{10, 3000} {
		n := r.Nodes[i]
		if n.Topics != want || len(n.Starts) != 2 || n.Files == 0 {
			t.Errorf("%+v", n)
		}
		for _, s := range n.Starts {
			if s.Answers == 0 || s.Ready < s.Answers || s.Filled < s.Ready || s.Tip < 512<<10 || s.Own == 0 || s.Live < s.State || s.State <= 0 {
				t.Errorf("%+v", s)
			}
		}
	}
}
