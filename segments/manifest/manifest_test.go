package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"chorale/message"
	"chorale/segments/format"

	"pgregory.net/rapid"
)

// meta describes a file of seqs first to last as no other one.
func meta(first, last uint64) FileMeta {
	return FileMeta{
		Kind: KindSegment, First: first, Last: last, FirstTime: int64(first), LastTime: int64(last),
		Messages: last - first + 1, Bytes: 1000, Hash: Hash{byte(first), byte(last)}, Sum: uint32(last),
	}
}

func TestEditsThatAreRefused(t *testing.T) {
	m := Manifest{Files: []FileMeta{meta(4, 6), meta(7, 9), meta(10, 12)}}
	wrong := meta(13, 15)
	wrong.Messages = 2
	early := meta(13, 15)
	early.FirstTime = 11
	for _, c := range []struct {
		name string
		edit Edit
		want string
	}{
		{"a hole at the end", Edit{Add: []FileMeta{meta(14, 15)}}, "does not follow"},
		{"an overlap", Edit{Add: []FileMeta{meta(12, 15)}}, "does not follow"},
		{"the same again", Edit{Add: []FileMeta{meta(10, 12)}}, "does not follow"},
		{"a hole in the middle", Edit{Remove: []Hash{meta(7, 9).Hash}}, "does not follow"},
		{"the newest removed", Edit{Remove: []Hash{meta(10, 12).Hash}}, "moves the end of the files from 12 to 9"},
		{"all removed", Edit{Remove: []Hash{meta(4, 6).Hash, meta(7, 9).Hash, meta(10, 12).Hash}}, "moves the end"},
		{"removed twice", Edit{Remove: []Hash{meta(4, 6).Hash, meta(4, 6).Hash}}, "does not hold"},
		{"unknown removed", Edit{Remove: []Hash{{9}}}, "does not hold"},
		{"older ones added", Edit{Add: []FileMeta{meta(1, 3)}}, "starts the files at 1"},
		{"a wrong count", Edit{Add: []FileMeta{wrong}}, "with 2 messages"},
		{"time runs back", Edit{Add: []FileMeta{early}}, "starts at time 11"},
	} {
		if got, err := m.Apply(c.edit); err == nil || !strings.Contains(err.Error(), c.want) || !slices.Equal(got.Files, m.Files) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := (Manifest{}).Apply(Edit{Add: []FileMeta{meta(2, 3)}}); err == nil {
		t.Error("the first file starts at seq 2")
	}
}

func TestEditsThatApply(t *testing.T) {
	m := Manifest{}
	for _, step := range []struct {
		edit Edit
		want []FileMeta
	}{
		{Edit{}, nil},
		{Edit{Add: []FileMeta{meta(1, 3), meta(4, 6)}}, []FileMeta{meta(1, 3), meta(4, 6)}},
		{Edit{Add: []FileMeta{meta(7, 9)}}, []FileMeta{meta(1, 3), meta(4, 6), meta(7, 9)}},
		{Edit{Remove: []Hash{meta(4, 6).Hash, meta(7, 9).Hash}, Add: []FileMeta{meta(4, 9)}}, []FileMeta{meta(1, 3), meta(4, 9)}},
		{Edit{Remove: []Hash{meta(1, 3).Hash}, Add: []FileMeta{meta(10, 10)}}, []FileMeta{meta(4, 9), meta(10, 10)}},
	} {
		next, err := m.Apply(step.edit)
		check(t, err)
		if !slices.Equal(next.Files, step.want) {
			t.Fatalf("%v, want %v", next.Files, step.want)
		}
		m = next
	}
	again, err := DecodeManifest(m.Encode())
	check(t, err)
	if !slices.Equal(again.Files, m.Files) || again.End() != 10 || again.Oldest() != 4 {
		t.Fatalf("%v", again)
	}
}

func TestEditEncoding(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var e Edit
		for range rapid.IntRange(0, 4).Draw(rt, "removes") {
			e.Remove = append(e.Remove, Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "hash")))
		}
		for range rapid.IntRange(0, 4).Draw(rt, "adds") {
			first := rapid.Uint64Range(1, 1<<60).Draw(rt, "first")
			m := meta(first, first+rapid.Uint64Range(0, 1<<20).Draw(rt, "more"))
			m.FirstTime, m.Bytes = rapid.Int64Range(-9, m.LastTime).Draw(rt, "time"), rapid.Int64Range(128, 1<<50).Draw(rt, "bytes")
			e.Add = append(e.Add, m)
		}
		b := e.Encode()
		got, err := DecodeEdit(b)
		check(t, err)
		if !slices.Equal(got.Add, e.Add) || !slices.Equal(got.Remove, e.Remove) {
			t.Fatalf("%v, want %v", got, e)
		}
		b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if _, err := DecodeEdit(b); !errors.Is(err, format.ErrCorrupt) {
			t.Fatalf("a flipped bit: %v", err)
		}
	})
}

// FuzzEdit: what is accepted, past the checksum, has one encoding.
func FuzzEdit(f *testing.F) {
	f.Add(Edit{}.Encode())
	f.Add(Edit{Plan: 1}.Encode())
	f.Add(Edit{Remove: []Hash{{1}}, Add: []FileMeta{meta(1, 9)}}.Encode())
	f.Add(Edit{Plan: 7, Remove: []Hash{{1}}, Add: layerOf(1, 9, 3)}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = DecodeEdit(b)
		if len(b) < editHeadBytes {
			return
		}
		b = resum(b)
		if e, err := DecodeEdit(b); err == nil && !bytes.Equal(e.Encode(), b) {
			t.Fatalf("%v is not %x", e, b)
		}
		if m, err := DecodeManifest(b); err == nil && !bytes.Equal(m.Encode(), b) {
			t.Fatalf("%v is not %x", m, b)
		}
	})
}

// resum makes the checksum of an edit right.
func resum(b []byte) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b, message.Sum(b[4:]))
	return b
}

func TestNewerEdit(t *testing.T) {
	b := Edit{}.Encode()
	b[4] = editVersion + 1
	if _, err := DecodeEdit(resum(b)); !errors.Is(err, format.ErrNewer) || errors.Is(err, format.ErrCorrupt) {
		t.Fatalf("an edit of a newer version: %v", err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
