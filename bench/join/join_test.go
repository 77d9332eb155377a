package join

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"chorale/internal/procs"
)

// TestJoinThroughKills: an empty node joins two that have 12 MiB, and is killed on its way
// as they are: it resumes, has the same files in the end, and the network carried them
// about once.
func TestJoinThroughKills(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "chorale")
	if err := procs.Build(binary, ""); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{
		Binary: binary, Dir: t.TempDir(), Bytes: 12 << 20, SegmentBytes: 256 << 10, Nodes: 2, Rate: 2 << 20, Kills: 3, Seed: 3,
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
	if r.Ratio() > 1.05 || r.Ratio() < 0.5 || r.Kills != 6 || r.Resumed == 0 || r.Count == 0 {
		t.Errorf("%.3f times the files came; %+v", r.Ratio(), r)
	}
}
