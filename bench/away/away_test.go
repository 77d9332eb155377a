package away

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"chorale/internal/procs"
)

// TestAway: a node that missed more than the kept log is sent a snapshot, is killed on its
// way, and has the same files in the end, while each message is acknowledged.
func TestAway(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "chorale")
	if err := procs.Build(binary, ""); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{
		Binary: binary, Dir: t.TempDir(), Rate: 2000, Payload: 512, For: 6 * time.Second, SegmentBytes: 256 << 10, LogBytes: 1 << 20,
		Kills: 1, Seed: 1, Patience: 2 * time.Minute, Step: func(what string) { t.Log(what) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	if r.Missed < 6000 || r.Caught < r.Missed || r.Kills != 1 || r.Snapshots == 0 || r.Files == 0 || r.Took == 0 || r.GapAway == 0 || r.GapBack == 0 {
		t.Errorf("%+v", r)
	}
}
