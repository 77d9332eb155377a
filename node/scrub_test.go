package node

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorale/api"
)

// TestBitFlips: a node whose disk flips bits of a file that nobody reads finds it, says
// so, and has the file again as it was.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	c.SegmentBytes, c.ScrubEvery = minSegmentBytes, minScrubEvery
	a, _ := boot(t, c)
	client := dial(t, a.API)
	for i := range 4 {
		publish(t, client, "a/b", strings.Repeat(fmt.Sprint(i), 32<<10))
	}
	var path string
	within(t, "there is a segment", func() bool {
		found, err := filepath.Glob(filepath.Join(c.Dir, "segments", "*.seg"))
		if err != nil || len(found) == 0 {
			return false
		}
		path = found[0]
		st, err := client.GetStatus(t.Context(), &api.GetStatusRequest{})
		return err == nil && st.History.Segments > 0
	})
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(want)
	bad[len(bad)/2] ^= 4
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, "the file is as it was", func() bool {
		got, err := os.ReadFile(path)
		return err == nil && bytes.Equal(got, want)
	})
	within(t, "the node is ready", func() bool {
		r, err := http.Get("http://" + a.HTTP + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode == http.StatusOK
	})
	var st *api.GetStatusResponse
	within(t, "another file is found sound", func() bool {
		st, err = client.GetStatus(t.Context(), &api.GetStatusRequest{})
		return err == nil && st.Scrub.SoundFiles > 0
	})
	if s := st.Scrub; s.BadFiles != 1 || s.LastBadFile != filepath.Base(path) || s.EverySeconds != 1 {
		t.Errorf("%v", s)
	}
	if got := recoverAll(t, client); len(got) != 4 || got[0] != strings.Repeat("0", 32<<10) {
		t.Errorf("%d messages", len(got))
	}
}

// within waits until something holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
