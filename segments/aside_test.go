package segments

import (
	"errors"
	"testing"
)

// TestAsideGoes: what was put aside stays as long as its file is wanted, and goes when that
// was replaced or has expired, also when the node has started again.
func TestAsideGoes(t *testing.T) {
	d := newDamaged(t)
	aside := func(m FileMeta) bool {
		check(t, d.log.Tidy(0, 0))
		_, err := d.fsys.ReadFile("data/" + m.Name() + damagedSuffix)
		return err == nil
	}
	first, second := d.files[0], d.files[1]
	for _, m := range []FileMeta{first, second} {
		check(t, d.fsys.FlipBit("data/"+m.Name(), 800))
		if err := d.log.Verify(m, anyPace); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if !aside(m) {
			t.Errorf("%s is wanted", m.Name())
		}
	}
	d.restart(t)
	if !aside(first) || !aside(second) {
		t.Error("both are wanted still")
	}

	refused, mismatch := d.log.Install(Edit{Remove: []Hash{first.Hash}}) // it expires
	check(t, errors.Join(refused, mismatch))
	if aside(first) || !aside(second) {
		t.Error("the first has expired, the second has not")
	}

	check(t, d.log.Rebuild(second, &memory{all: d.all, pos: second.First - 1}, nil))
	check(t, d.fsys.PutFile("data/"+second.Name()+damagedSuffix, []byte("left by a crash")))
	d.files = d.files[1:]
	d.restart(t)
	if !aside(second) {
		t.Error("the second is wanted")
	}
	d.compact(t, 0, 1, 2, func(id uint32) int { return int(id % 2) })
	if aside(second) {
		t.Error("the second was replaced by a layer, which is here")
	}
	_, err := d.log.BuildOne() // removes what the layer replaced
	check(t, err)
	d.keep(t)
	d.restart(t)
	if entries, _ := d.fsys.List("data"); len(entries) != len(d.files) {
		t.Errorf("left behind: %v", entries)
	}
}
