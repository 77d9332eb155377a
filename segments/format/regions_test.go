package format

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"chorale/message"
)

// TestRegions: every byte of a file is in one region, and whichever bit of a region is
// flipped, that region is named.
func TestRegions(t *testing.T) {
	store, _ := storeOf(t, 50<<10, 100, 3000, 200, everyTopic)
	mixed, _ := storeOf(t, 0, 100, 3000, 200, everyTopic)
	for kind, b := range map[string][]byte{"segment": small(t, 1, 3000), "store": store, "mixed store": mixed} {
		size := int64(len(b))
		f, err := Open(bytes.NewReader(b), size, "x")
		if err != nil {
			t.Fatal(err)
		}
		regions, err := f.Regions(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := Locate(bytes.NewReader(b), size, "x"); err != nil {
			t.Errorf("%s: a sound file: %v", kind, err)
		}
		at, rng := int64(0), rand.New(rand.NewPCG(1, 1))
		for i, r := range regions {
			if r.Off != at || r.Bytes <= 0 {
				t.Fatalf("%s: region %d is %+v, the one before ends at %d", kind, i, r, at)
			}
			at += r.Bytes
			for range 20 {
				bad := bytes.Clone(b)
				bad[r.Off+rng.Int64N(r.Bytes)] ^= 1 << rng.IntN(8)
				err := Locate(bytes.NewReader(bad), size, "x")
				if err == nil || !strings.HasPrefix(err.Error(), r.Name+": x at byte ") {
					t.Fatalf("%s: a bit of the %s is flipped, the error is: %v", kind, r.Name, err)
				}
			}
		}
		if at != size || len(regions) < 7 {
			t.Errorf("%s: %d regions end at %d, the file at %d", kind, len(regions), at, size)
		}
	}
}

// TestOtherHeads: the checksum of a block does not tell records with the same bodies and other
// seqs from its own, since each head ends with a checksum; the check of the region does.
func TestOtherHeads(t *testing.T) {
	mine, others := small(t, 1, 3000), small(t, 5001, 3000)
	f, err := Open(bytes.NewReader(mine), int64(len(mine)), "x")
	if err != nil {
		t.Fatal(err)
	}
	regions, err := f.Regions(bytes.NewReader(mine))
	if err != nil {
		t.Fatal(err)
	}
	block := regions[1]
	a, b := mine[block.Off:][:block.Bytes], others[block.Off:][:block.Bytes]
	if bytes.Equal(a, b) || message.Sum(a) != message.Sum(b) {
		t.Fatalf("the checksums %08x and %08x differ", message.Sum(a), message.Sum(b))
	}
	if err := block.Check(a); err != nil {
		t.Error(err)
	}
	if err := block.Check(b); err == nil || !strings.Contains(err.Error(), "seqs 5004 to ") {
		t.Errorf("records of other seqs: %v", err)
	}
}
