package fetching

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"chorale/segments"

	"github.com/hashicorp/raft"
)

// TestRemains: what is asked for of damaged copies comes, in pieces, at the rate; where a
// copy ends, and who has nothing, is told, and who fails again and again is left alone.
func TestRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 900_000)
		m := w.files[0]
		whole, cut := w.add("whole"), w.add("cut")
		without, broken, silent := w.add("without"), w.add("broken"), w.add("silent")
		whole.torn, cut.torn = w.bytes[m.Hash], w.bytes[m.Hash][:500_000]
		broken.torn, broken.breaks = whole.torn, func() bool { return true }
		silent.stalls = true
		f := w.fetcher()
		copies := f.Remains(t.Context(), m)
		if len(copies) != 5 {
			t.Fatalf("%d copies", len(copies))
		}
		begun, b := time.Now(), make([]byte, 30_000)
		for off := int64(0); off < m.Bytes; off += int64(len(b)) {
			if n, err := copies[0].ReadAt(b, off); n != len(b) || err != nil || !bytes.Equal(b, whole.torn[off:][:n]) {
				t.Fatalf("%d bytes at %d: %v", n, off, err)
			}
		}
		if took := time.Since(begun); whole.asked[m.Hash] != 14 || f.Counts().Received != m.Bytes || took < 700*time.Millisecond {
			t.Errorf("%d pieces, %d bytes in %v", whole.asked[m.Hash], f.Counts().Received, took)
		}
		for _, at := range []int64{870_000, 480_000, 500_000, 0} {
			n, err := copies[1].ReadAt(b, at)
			if want := max(0, min(30_000, 500_000-at)); int64(n) != want || (n < len(b)) != (err == io.EOF) || !bytes.Equal(b[:n], whole.torn[at:][:n]) {
				t.Errorf("%d bytes at %d of a copy that is cut: %v", n, at, err)
			}
		}
		for i, c := range []struct {
			*node
			asked int
			err   func(error) bool
		}{
			{without, 1, func(err error) bool { return errors.Is(err, segments.ErrNotHere) }},
			{broken, patience, func(err error) bool { return err.Error() == "broken off" }},
			{silent, patience, func(err error) bool { return err != nil }},
		} {
			for range 5 {
				if n, err := copies[2+i].ReadAt(b, 0); n > 0 || !c.err(err) {
					t.Errorf("%d bytes of copy %d: %v", n, 2+i, err)
				}
			}
			if c.node.asked[m.Hash] != c.asked {
				t.Errorf("copy %d was asked for %d times", 2+i, c.node.asked[m.Hash])
			}
		}
	})
}

// TestRemainsOfWhom: a node whose copy is cut is as good as before, and one that has just
// failed is left out.
func TestRemainsOfWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 100_000)
		w.add("broken").breaks = func() bool { return true }
		w.add("cut").short = true
		f := w.fetcher()
		if err := f.Bring(t.Context(), w.files[0], func() bool { return true }); !errors.Is(err, segments.ErrCorrupt) && err.Error() != "node broken: broken off" {
			t.Fatal(err)
		}
		copies := f.Remains(t.Context(), w.files[0])
		if len(copies) != 1 || copies[0].(*remains).from != raft.ServerID("cut") {
			t.Errorf("%d copies", len(copies))
		}
	})
}
