package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"chorale/disk"
)

func (c *cluster) stream(w io.Writer) (Taken, error) {
	return Stream{Source: c, Scratch: disk.NewMem(1), Version: "test", Pause: 1}.Run(context.Background(), w)
}

// unpack is tar -x, which takes what there is of a cut stream.
func unpack(t *testing.T, b []byte) *disk.Mem {
	t.Helper()
	m := disk.NewMem(1)
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err != nil {
			return m
		}
		if h.Typeflag == tar.TypeDir {
			if err := m.MkdirAll(strings.TrimSuffix(h.Name, "/")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		body, _ := io.ReadAll(r)
		if err := m.PutFile(h.Name, body); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStream: unpacked, a stream is a backup that the next one continues; cut anywhere it
// is none.
func TestStream(t *testing.T) {
	c := newCluster(t, 1)
	c.publish(40)
	times := 0
	c.afterState = func() { // a file goes while others are in the stream already
		if times++; times == 1 {
			c.expire()
			c.publish(8)
		}
	}
	var b bytes.Buffer
	took, err := c.stream(&b)
	if err != nil || took.Seq != 48 || took.Cuts != 2 {
		t.Fatalf("%+v, %v", took, err)
	}
	to := unpack(t, b.Bytes())
	if sound(t, to) != 48 {
		t.Error("another backup came out")
	}
	x := &target{fs: disk.NewMem(1)}
	if err := restore(to, x); err != nil || x.founded.LastSeq != 48 {
		t.Errorf("restored: %v", err)
	}
	c.publish(8)
	if next := c.mustTake(to); next.Kept != took.Files || sound(t, to) != 56 {
		t.Errorf("the next one: %+v", next)
	}
	for n := 0; n < b.Len()-1024-512; n += 100 { // the end is padding and zeros
		if _, _, err := verify(unpack(t, b.Bytes()[:n])); err == nil {
			t.Fatalf("%d of %d bytes are a backup", n, b.Len())
		}
	}

	c.spoilt = true
	if _, err := c.stream(io.Discard); !errors.Is(err, errSpoilt) {
		t.Errorf("files that are given wrong: %v", err)
	}
	c.spoilt, c.afterState = false, c.lose
	if _, err := c.stream(io.Discard); !errors.Is(err, ErrGone) {
		t.Errorf("a file that nobody has: %v", err)
	}
}
