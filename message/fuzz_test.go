package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

func seeds(f *testing.F) {
	for _, s := range []struct{ producer, input string }{
		{"", "0 a hello"},
		{"", "0 a/b expect=0 kind=text lang=en hello\n0 a/c there"},
		{"producer-one", "1 a/b hello\n1 a/c there\n2 a/b expect=7 again\n3 x"},
	} {
		f.Add(buildBatch(f, s.producer, s.input))
	}
	f.Add([]byte{})
}

// FuzzParseBatch: whatever is accepted reads back the same and is the one encoding
// of what it says. The sums are made right first, so that the fuzzer gets past them.
func FuzzParseBatch(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := ParseBatch(b); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		b = slices.Clone(b)
		mend(b)
		v, err := ParseBatch(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		checkSame(t, b, v)
	})
}

// FuzzReadBatch: what is accepted can be walked, and with right bodies ParseBatch
// accepts it too.
func FuzzReadBatch(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clone(b)
		if len(b) >= BatchHeadBytes {
			mendBatch(b)
		}
		v, err := ReadBatch(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		whole, err := ParseBatch(b)
		if err == nil {
			checkSame(t, b, whole)
		}
		count := 0
		for rest := v.Records; len(rest) > 0; count++ {
			var r Record
			if r, rest, err = Split(rest); err != nil {
				t.Fatal(err)
			}
			_ = v.Topics[r.Topic()]
			r.Number()
			r.Expected()
			if r.UnitLeft() < 1 {
				t.Fatalf("message %d: %d left in its unit", count, r.UnitLeft())
			}
		}
		if count != v.Count {
			t.Fatalf("%d records, the batch says %d", count, v.Count)
		}
	})
}

// checkSame builds the batch again from what was read of it.
func checkSame(t *testing.T, b []byte, v Batch) {
	names := map[string]bool{}
	for _, name := range v.Topics {
		if names[string(name)] {
			return // a Builder names a topic once
		}
		names[string(name)] = true
	}
	var again Builder
	var unit []Entry
	for rest := v.Records; len(rest) > 0; {
		r, tail, err := Split(rest)
		if err != nil {
			t.Fatal(err)
		}
		e := Entry{Topic: string(v.Topics[r.Topic()]), Draft: draftOf(r)}
		if seq, ok := r.Expected(); ok {
			e.Expected = &seq
		}
		unit = append(unit, e)
		if r.UnitLeft() == 1 {
			again.Add(r.Number(), unit...)
			unit = nil
		}
		rest = tail
	}
	if got := again.Encode(nil, v.Producer); !bytes.Equal(got, b) {
		t.Fatalf("read and built again it is\n%x\nwas\n%x", got, b)
	}
}

func draftOf(r Record) Draft {
	d := Draft{Payload: r.Payload()}
	r.EachHeader(func(key string, value []byte) bool {
		d.Headers = append(d.Headers, Header{key, value})
		return true
	})
	return d
}

// FuzzRecord: Split and Check on any bytes. What Check accepts is the one encoding
// of what it says.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(AppendPadded(nil, NewRecord(Draft{Payload: []byte("hello")}, 7, 42, 40, 1))))
	f.Add([]byte(AppendPadded(nil, NewRecord(Draft{Headers: []Header{{"k", nil}, {"kind", []byte("text")}}}, 0, 1, 0, 0))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clone(b)
		r, rest, err := Split(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(rest)+Stride(len(r)) != len(b) || r.Size() != len(r) {
			t.Fatalf("%d bytes were split into %d and %d", len(b), len(r), len(rest))
		}
		_ = r.Check() // as it came
		binary.LittleEndian.PutUint32(r[32:], Sum(r.Body()))
		binary.LittleEndian.PutUint32(r[36:], Sum(r[:36]))
		if err := r.Check(); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again := NewRecord(draftOf(r), r.Topic(), r.Seq(), r.Prev(), r.Time()); !bytes.Equal(again, r) {
			t.Fatalf("read and built again it is\n%x\nwas\n%x", again, r)
		}
	})
}
