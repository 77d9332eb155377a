package segments

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"

	"chorale/message"
)

// memory gives the records of the model behind a seq, some at a time.
type memory struct {
	all []message.Record
	pos uint64
}

func (m *memory) Read(dst []byte, _ int) ([]byte, message.Progress, error) {
	n := 0
	for ; n < 4 && m.pos < uint64(len(m.all)); n++ {
		dst = message.AppendPadded(dst, m.all[m.pos])
		m.pos++
	}
	return dst, message.Progress{Count: n, Scanned: m.pos}, nil
}

// damages are ways in which a file goes bad while nobody reads it.
var damages = map[string]func(d *damaged, name string) error{
	"a flipped bit in the header": func(d *damaged, name string) error { return d.fsys.FlipBit(name, 70) },
	"a flipped bit in the middle": func(d *damaged, name string) error { return d.fsys.FlipBit(name, d.files[1].Bytes*4) },
	"a flipped bit at the end":    func(d *damaged, name string) error { return d.fsys.FlipBit(name, d.files[1].Bytes*8-1) },
	"a tail cut":                  func(d *damaged, name string) error { return d.fsys.Truncate(name, d.files[1].Bytes-1) },
	"everything cut":              func(d *damaged, name string) error { return d.fsys.Truncate(name, 0) },
	"a byte too many": func(d *damaged, name string) error {
		return d.fsys.PutFile(name, append(bytes.Clone(d.copies[d.files[1].Name()]), 0))
	},
	"another file": func(d *damaged, name string) error { return d.fsys.PutFile(name, d.copies[d.files[0].Name()]) },
	"removed":      func(d *damaged, name string) error { return d.fsys.Lose(name) },
	"unreadable": func(d *damaged, name string) error {
		return d.fsys.Fault("on read " + d.files[1].Name() + " times 1 fail EIO")
	},
}

func anyPace(int64) error { return nil }

// TestVerify: every damage to every kind of file is found by reading it, with a reader
// that has it open, too; and rebuilt from the records.
func TestVerify(t *testing.T) {
	for kind, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		for what, damage := range damages {
			t.Run(kind+"/"+what, func(t *testing.T) {
				d.reset(t)
				bad := d.files[1]
				open, _, err := d.log.OpenFile(bad.Hash)
				check(t, err)
				defer open.Close()
				check(t, d.log.Verify(bad, anyPace))
				check(t, damage(d, "data/"+bad.Name()))
				for i, m := range d.files {
					if err := d.log.Verify(m, anyPace); (i == 1) != errors.Is(err, ErrCorrupt) || i != 1 && err != nil {
						t.Fatalf("file %d: %v", i, err)
					}
				}
				if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrNotHere) {
					t.Fatalf("found a second time: %v", err)
				}
				if m := d.log.Missing(); len(m) != 1 || m[0] != bad || d.log.Files()[1].Here || !d.log.Files()[0].Here {
					t.Fatalf("missing %v", m)
				}
				if got, err := d.read(t, filters(t, "**"), 0, 1<<20); !errors.Is(err, ErrNotHere) || uint64(len(got)) >= bad.Last {
					t.Fatalf("read %v, %v", got, err)
				}
				check(t, d.log.Rebuild(bad, &memory{all: d.all, pos: bad.First - 1}, nil))
				d.healed(t)
			})
		}
	}
}

// healed: all files are here as they were, and nothing else is.
func (d *damaged) healed(t *testing.T) {
	t.Helper()
	d.expect(t, 0, 1<<20, "**")
	for _, m := range d.files {
		check(t, d.log.Verify(m, anyPace))
		if b := readFile(t, d.log, m.Hash); !bytes.Equal(b, d.copies[m.Name()]) {
			t.Fatalf("%s has other bytes than before", m.Name())
		}
	}
	if entries, _ := d.fsys.List("data"); len(entries) != len(d.files) {
		t.Fatalf("left behind: %v", entries)
	}
}

// TestVerifyIsNoDamage: what keeps a file from being read, but is not the file's fault.
func TestVerifyIsNoDamage(t *testing.T) {
	d := newDamaged(t)
	ended := errors.New("the node ends")
	if err := d.log.Verify(d.files[1], func(int64) error { return ended }); !errors.Is(err, ended) {
		t.Fatal(err)
	}
	check(t, d.fsys.Fault("on open *.seg times 1 fail EMFILE"))
	if err := d.log.Verify(d.files[1], anyPace); err == nil || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if err := d.log.Verify(meta(100, 200), anyPace); !errors.Is(err, ErrNotHere) {
		t.Fatal(err)
	}
	if n := len(d.log.Missing()); n > 0 {
		t.Fatalf("%d files are missing", n)
	}
}

// TestRebuildRefuses: records that are not all, or not these, make no file; nor does a
// layer of which too little is left.
func TestRebuildRefuses(t *testing.T) {
	for kind, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		d.reset(t)
		bad := d.files[1]
		check(t, d.fsys.Lose("data/"+bad.Name()))
		if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) || !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		other := slices.Clone(d.all)
		for i, r := range other {
			other[i] = message.NewRecord(message.Draft{Payload: []byte("x")}, r.Topic(), r.Seq(), r.Prev(), r.Time())
		}
		for want, from := range map[error]*memory{
			ErrBadCopy:                 {all: other, pos: bad.First - 1},
			ErrNotHere:                 {all: d.all[:bad.Last-1], pos: bad.First - 1},
			fmt.Errorf("a later one"):  {all: d.all, pos: bad.First},
			fmt.Errorf("none of them"): {},
		} {
			err := d.log.Rebuild(bad, from, nil)
			if err == nil || errors.Is(want, ErrBadCopy) != errors.Is(err, ErrBadCopy) {
				t.Errorf("%s: %v, want %v", kind, err, want)
			}
		}
		if len(d.log.Missing()) != 1 {
			t.Fatal("it is here all the same")
		}
		if kind == "store" {
			check(t, d.fsys.Lose("data/"+d.files[2].Name()))
			_ = d.log.Verify(d.files[2], anyPace)
			if err := d.log.Rebuild(bad, &memory{all: d.all, pos: bad.First - 1}, nil); !errors.Is(err, ErrNotHere) {
				t.Errorf("a store of which nobody knows the topics: %v", err)
			}
		}
	}
}

// TestRebuildLayer: all stores of a layer are built again, as long as what is left of all but
// one, here or elsewhere, says which topics it held.
func TestRebuildLayer(t *testing.T) {
	d := newDamagedLayer(t)
	first, second := d.files[1], d.files[2]
	from := func() *memory { return &memory{all: d.all, pos: first.First - 1} }
	for _, here := range []bool{true, false} {
		d.reset(t)
		check(t, d.fsys.Lose("data/"+first.Name()))
		check(t, d.fsys.FlipBit("data/"+second.Name(), 8*70)) // in a block
		for _, m := range []FileMeta{first, second} {
			if err := d.log.Verify(m, anyPace); !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
		var others func(FileMeta) []io.ReaderAt
		if !here {
			check(t, d.fsys.Lose("data/"+second.Name()+damagedSuffix))
			others = func(m FileMeta) []io.ReaderAt { return []io.ReaderAt{d.flipped(m, 70)} }
			if err := d.log.Rebuild(first, from(), nil); !errors.Is(err, ErrNotHere) {
				t.Errorf("nothing is left here: %v", err)
			}
		}
		check(t, d.log.Rebuild(first, from(), others))
		check(t, d.log.Rebuild(second, from(), others))
		d.healed(t)
	}
}

// TestReclaim: a file whose reading alone had failed, and one that a person put back.
func TestReclaim(t *testing.T) {
	for kind, d := range map[string]*damaged{"segment": newDamaged(t), "store": newDamagedLayer(t)} {
		d.reset(t)
		bad := d.files[1]
		check(t, d.fsys.Fault("on read "+bad.Name()+" times 1 fail EIO"))
		if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: %v", kind, err)
		}
		check(t, d.log.Reclaim(bad))
		d.healed(t)

		check(t, d.fsys.FlipBit("data/"+bad.Name(), 1000))
		if err := d.log.Verify(bad, anyPace); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: %v", kind, err)
		}
		if err := d.log.Reclaim(bad); !errors.Is(err, ErrNotHere) {
			t.Fatalf("%s: %v", kind, err)
		}
		check(t, d.fsys.PutFile("data/"+bad.Name(), d.copies[bad.Name()]))
		check(t, d.log.Reclaim(bad))
		d.healed(t)
	}
}
