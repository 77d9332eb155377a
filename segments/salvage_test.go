package segments

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"chorale/segments/mend"
)

// flipped is what another node has of a file: with a bit of each of some bytes flipped.
func (d *damaged) flipped(m FileMeta, at ...int) io.ReaderAt {
	b := bytes.Clone(d.copies[m.Name()])
	for _, i := range at {
		b[i] ^= 4
	}
	return bytes.NewReader(b)
}

// TestMend: whatever happened to a file here, it is put together from that and two copies
// that are damaged at other places, and it is the file.
func TestMend(t *testing.T) {
	for kind, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		for what, damage := range damages {
			t.Run(kind+"/"+what, func(t *testing.T) {
				d.reset(t)
				bad := d.files[1]
				check(t, damage(d, "data/"+bad.Name()))
				if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) {
					t.Fatal(err)
				}
				check(t, d.log.Mend(bad, []io.ReaderAt{d.flipped(bad, 100), d.flipped(bad, 101)}))
				d.healed(t)
			})
		}
	}
}

// TestMendCannot: copies that are damaged at the same place make no file, and what is left
// of it stays where it is.
func TestMendCannot(t *testing.T) {
	for kind, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		d.reset(t)
		bad := d.files[1]
		check(t, d.fsys.FlipBit("data/"+bad.Name(), 100*8+2))
		if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		for what, others := range map[string][]io.ReaderAt{"alone": nil, "with others": {d.flipped(bad, 100), d.flipped(bad, 100, 200)}} {
			if err := d.log.Mend(bad, others); !errors.Is(err, mend.ErrLost) || !strings.Contains(err.Error(), "block 0, bytes 64 to ") {
				t.Errorf("%s, %s: %v", kind, what, err)
			}
		}
		if _, err := d.fsys.ReadFile("data/" + bad.Name() + damagedSuffix); err != nil || len(d.log.Missing()) != 1 {
			t.Errorf("%s: %d files are missing; what was put aside: %v", kind, len(d.log.Missing()), err)
		}
		check(t, d.log.Mend(bad, []io.ReaderAt{d.flipped(bad, 0)}))
		d.healed(t)
		if err := d.log.Mend(bad, []io.ReaderAt{d.flipped(bad)}); err != nil {
			t.Errorf("%s: it is here: %v", kind, err)
		}
	}
}

// TestMendByHash: bytes whose every checksum holds are not the file if its hash is another.
func TestMendByHash(t *testing.T) {
	d := newDamaged(t)
	bad := d.files[1]
	check(t, d.fsys.Lose("data/"+bad.Name()))
	if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	other := bad
	other.Hash[0] ^= 1 // the file that the manifest means is another
	d.files[1] = other
	d.restart(t)
	if err := d.log.Mend(other, []io.ReaderAt{bytes.NewReader(d.copies[bad.Name()])}); !errors.Is(err, ErrBadCopy) {
		t.Errorf("%v", err)
	}
	if entries, _ := d.fsys.List("data"); len(entries) != len(d.files)-1 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestSalvage: a peer is given what there is of a file.
func TestSalvage(t *testing.T) {
	d := newDamaged(t)
	bad := d.files[1]
	salvage := func(h Hash) string {
		f, m, err := d.log.Salvage(h)
		if errors.Is(err, ErrNotHere) {
			return ""
		}
		check(t, err)
		defer f.Close()
		size, err := f.Size()
		check(t, err)
		b := make([]byte, size)
		_, err = f.ReadAt(b, 0)
		check(t, err)
		if m != bad {
			t.Errorf("%+v", m)
		}
		return string(b)
	}
	whole := string(d.copies[bad.Name()])
	if salvage(bad.Hash) != whole {
		t.Error("a sound file")
	}
	check(t, d.fsys.Truncate("data/"+bad.Name(), 500))
	if salvage(bad.Hash) != whole[:500] {
		t.Error("nobody has found yet that it is cut")
	}
	if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if _, _, err := d.log.OpenFile(bad.Hash); !errors.Is(err, ErrNotHere) || salvage(bad.Hash) != whole[:500] {
		t.Errorf("it was put aside: %v", err)
	}
	check(t, d.fsys.Lose("data/"+bad.Name()+damagedSuffix))
	if salvage(bad.Hash) != "" || salvage(Hash{1}) != "" {
		t.Error("nothing is here")
	}
}
