package upkeep

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chorale/segments"
)

// tear gives the peer a damaged copy of a file: with a bit flipped, and cut.
func (w *world) tear(m segments.FileMeta, flip, cut int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := bytes.Clone(w.copies[m.Hash])
	b[flip] ^= 1
	w.torn[m.Hash] = b[:cut]
}

// taken is how much was asked for of damaged copies since it was called before.
func (w *world) taken() (bytes int64) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes, w.salvaged = w.salvaged, 0
	return bytes
}

// TestMends: a file that is damaged everywhere, here in whatever way and at the peer elsewhere,
// is as it was again; and if it is not damaged much, not much of it is asked for.
func TestMends(t *testing.T) {
	for what, damage := range damages {
		inBubble(t, func(t *testing.T, w *world) {
			w.open() // with an empty tip
			k := w.keeper(period, 0)
			stop := run(k)
			defer stop()
			time.Sleep(time.Hour)
			for _, m := range w.files {
				w.taken()
				if what == "flipped" {
					w.tear(m, 70, m.Bytes-5) // in the first block and the trailer
				} else {
					w.tear(m, 10, m.Bytes) // in the header, which is known
				}
				w.must(damage(w, m, "segments/"+m.Name()))
				time.Sleep(period)
				w.whole()
				if n := w.taken(); what == "flipped" && n > 64<<10 {
					t.Errorf("%d bytes were asked for to mend a bit of %d bytes", n, m.Bytes)
				}
			}
			if k.Lacking() != "" {
				t.Error(k.Lacking())
			}
		})
	}
}

// TestMendsNot: what is damaged at the same place everywhere is named, with what of it is
// lost, and is tried again, less and less often, until there is another copy.
func TestMendsNot(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.open()
		k := w.keeper(period, 0)
		stop := run(k)
		defer stop()
		time.Sleep(time.Hour)
		bad := w.files[3]
		w.tear(bad, 1000, bad.Bytes)
		w.must(w.fsys.FlipBit("segments/"+bad.Name(), 8000))
		time.Sleep(period)
		said := k.Lacking()
		for _, part := range []string{bad.Name(), "no other node gave", "nor do damaged copies make it up", "block 0, bytes 64 to ", "of 2 copies"} {
			if !strings.Contains(said, part) {
				t.Errorf("%q does not say %q", said, part)
			}
		}
		w.taken()
		time.Sleep(period)
		if n := w.taken(); n == 0 || n > 26*bad.Bytes {
			t.Errorf("%d bytes were asked for in a day, the file has %d", n, bad.Bytes)
		}
		w.tear(bad, 0, bad.Bytes)
		time.Sleep(2 * time.Hour)
		w.whole()
		if k.Lacking() != "" || len(k.unmended) > 0 {
			t.Errorf("%q, %d", k.Lacking(), len(k.unmended))
		}
	})
}

// TestRebuildsLayer: stores of one layer that everybody has lost, the blocks at least, are built
// again from memory, with what is left at the peer of their tables.
func TestRebuildsLayer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k := w.keeper(period, 0)
		stop := run(k)
		defer stop()
		time.Sleep(time.Hour)
		for _, m := range w.files[:2] {
			w.tear(m, 70, m.Bytes)
			w.must(w.fsys.Lose("segments/" + m.Name()))
		}
		time.Sleep(period)
		w.whole()
		if k.Lacking() != "" {
			t.Error(k.Lacking())
		}
	})
}
