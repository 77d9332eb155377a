package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"chorale/segments/format"

	"pgregory.net/rapid"
)

// store describes the n-th of so many stores of a layer: it has an equal share of the
// messages.
func store(first, last uint64, n, of byte) FileMeta {
	m := meta(first, last)
	m.Kind, m.Level, m.Topics, m.Ancestor = KindStore, 1, 1, string('a'+rune(n))
	m.Messages = (last - first + 1) / uint64(of)
	if n == 0 {
		m.Messages += (last - first + 1) % uint64(of)
	}
	m.Hash = Hash{byte(first), byte(last), n, of}
	return m
}

func layerOf(first, last uint64, of byte) (out []FileMeta) {
	for n := range of {
		out = append(out, store(first, last, n, of))
	}
	return out
}

func hashes(files []FileMeta) (out []Hash) {
	for _, m := range files {
		out = append(out, m.Hash)
	}
	return out
}

func TestLayersReplaceRanges(t *testing.T) {
	m := Manifest{Files: []FileMeta{meta(1, 3), meta(4, 6), meta(7, 9)}}
	step := func(remove, add []FileMeta, want ...FileMeta) {
		t.Helper()
		slices.Reverse(add) // the order of an edit does not matter
		next, err := m.Apply(Edit{Remove: hashes(remove), Add: add})
		check(t, err)
		if !slices.Equal(next.Files, want) {
			t.Fatalf("%v, want %v", next.Files, want)
		}
		m = next
	}
	step([]FileMeta{meta(4, 6), meta(1, 3)}, layerOf(1, 6, 2), store(1, 6, 0, 2), store(1, 6, 1, 2), meta(7, 9))
	step(layerOf(1, 6, 2), layerOf(1, 6, 3), store(1, 6, 0, 3), store(1, 6, 1, 3), store(1, 6, 2, 3), meta(7, 9))
	step([]FileMeta{meta(7, 9)}, layerOf(7, 9, 1), store(1, 6, 0, 3), store(1, 6, 1, 3), store(1, 6, 2, 3), store(7, 9, 0, 1))
	ranges := m.Ranges()
	if len(ranges) != 2 || ranges[0].First != 1 || ranges[0].Last != 6 || len(ranges[0].Files) != 3 || ranges[1].First != 7 || len(ranges[1].Files) != 1 {
		t.Fatalf("%v", ranges)
	}
	for i, f := range m.Files {
		if m.Index(f) != i || m.Find(f.First) > i || m.Find(f.Last) != m.Find(f.First) {
			t.Fatalf("file %d: index %d, found at %d", i, m.Index(f), m.Find(f.First))
		}
	}
	if m.Index(meta(1, 3)) != -1 || m.Find(10) != 4 {
		t.Fatal("found what is not there")
	}
	again, err := DecodeManifest(m.Encode())
	check(t, err)
	if !slices.Equal(again.Files, m.Files) {
		t.Fatalf("%v", again)
	}
	step(layerOf(1, 6, 3), nil, store(7, 9, 0, 1))
}

func TestLayersThatAreRefused(t *testing.T) {
	m := Manifest{Files: slices.Concat(layerOf(4, 9, 2), []FileMeta{meta(10, 12)})}
	change := func(f FileMeta, edit func(*FileMeta)) FileMeta { edit(&f); return f }
	for _, c := range []struct {
		name string
		edit Edit
		want string
	}{
		{"a part of a layer removed", Edit{Remove: []Hash{store(4, 9, 0, 2).Hash}}, "hold 3 messages, want 6"},
		{"a message twice", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{store(10, 12, 0, 1), store(10, 12, 1, 2)}}, "hold 4 messages, want 3"},
		{"a store beside a segment", Edit{Add: []FileMeta{store(10, 12, 0, 1)}}, "does not follow"},
		{"stores of two ranges", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{store(10, 11, 0, 1), store(10, 12, 1, 2)}}, "does not follow"},
		{"longer than what it replaces", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: layerOf(10, 14, 2)}, "over the end"},
		{"shorter at the start", Edit{Remove: hashes(layerOf(4, 9, 2)), Add: layerOf(6, 9, 2)}, "not the start of a range"},
		{"two levels", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{store(10, 12, 0, 2), change(store(10, 12, 1, 2), func(f *FileMeta) { f.Level = 2 })}}, "none of the layer"},
		{"another time", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{store(10, 12, 0, 2), change(store(10, 12, 1, 2), func(f *FileMeta) { f.LastTime++ })}}, "none of the layer"},
		{"no topic", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{change(store(10, 12, 0, 1), func(f *FileMeta) { f.Topics = 0 })}}, "0 topics"},
		{"level 0", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{change(store(10, 12, 0, 1), func(f *FileMeta) { f.Level = 0 })}}, "level 0"},
		{"more topics than messages", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{change(store(10, 12, 0, 1), func(f *FileMeta) { f.Topics = 4 })}}, "4 topics"},
		{"a segment with an ancestor", Edit{Add: []FileMeta{change(meta(13, 14), func(f *FileMeta) { f.Ancestor = "a" })}}, "below \"a\""},
		{"the same store twice", Edit{Remove: []Hash{meta(10, 12).Hash}, Add: []FileMeta{store(10, 12, 1, 3), store(10, 12, 1, 3), store(10, 12, 1, 3)}}, "none of the layer"},
		{"an unknown kind", Edit{Add: []FileMeta{change(meta(13, 14), func(f *FileMeta) { f.Kind = 3 })}}, "kind 3"},
	} {
		if got, err := m.Apply(c.edit); err == nil || !strings.Contains(err.Error(), c.want) || !slices.Equal(got.Files, m.Files) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestEditVersions: an edit is as old as it can be.
func TestEditVersions(t *testing.T) {
	for want, e := range map[uint32]Edit{1: {Remove: []Hash{{1}}, Add: []FileMeta{meta(1, 9)}}, 2: {Plan: 7, Remove: []Hash{{1}}, Add: layerOf(1, 9, 2)}} {
		b := e.Encode()
		if uint32(b[4]) != want {
			t.Errorf("%v has version %d", e, b[4])
		}
		got, err := DecodeEdit(b)
		check(t, err)
		if got.Plan != e.Plan || !slices.Equal(got.Add, e.Add) || !slices.Equal(got.Remove, e.Remove) {
			t.Errorf("%v, want %v", got, e)
		}
		for n := range b { // cut anywhere
			if _, err := DecodeEdit(resum(append(bytes.Clone(b[:max(n, 4)]), make([]byte, max(4-n, 0))...))); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
	}
	old := resum(bytes.Replace(Edit{}.Encode(), []byte{1, 0, 0, 0}, []byte{2, 0, 0, 0}, 1))
	if _, err := DecodeEdit(append(old, make([]byte, 8)...)); !errors.Is(err, format.ErrCorrupt) {
		t.Fatalf("version 2 for what fits version 1: %v", err)
	}
}

// TestStoreEditDump shows an edit of version 2 to the byte.
func TestStoreEditDump(t *testing.T) {
	e := Edit{Plan: 258, Remove: []Hash{{0xaa}}, Add: []FileMeta{store(1, 9, 1, 2)}}
	want := "2c8d14fc" + "02000000" + "01000000" + "01000000" + "0201000000000000" + // sum, version, removes, adds, plan
		"aa" + strings.Repeat("00", 31) +
		"02" + "0100000000000000" + "0900000000000000" + "0100000000000000" + "0900000000000000" + // kind, seqs, times
		"0400000000000000" + "e803000000000000" + "01090102" + strings.Repeat("00", 28) + "09000000" + // messages, bytes, hash, sum
		"01" + "01000000" + "0100" + "62" // level, topics, ancestor
	if got := hex.EncodeToString(e.Encode()); got[8:] != want[8:] {
		t.Fatalf("%s, want %s", got, want)
	}
}

// TestTrims: an edit that says so may let messages go, and no other one; a manifest tells, and is
// of the version that says it.
func TestTrims(t *testing.T) {
	m := Manifest{Files: slices.Concat([]FileMeta{meta(1, 3)}, layerOf(4, 9, 2))}
	part := layerOf(4, 9, 3)[:2]
	e := m.Replace(7, hashes(layerOf(4, 9, 2)), part)
	if !e.Trims || m.Replace(7, hashes(layerOf(4, 9, 2)), layerOf(4, 9, 3)).Trims {
		t.Fatal(e.Trims)
	}
	strict := e
	strict.Trims = false
	if _, err := m.Apply(strict); err == nil || !strings.Contains(err.Error(), "hold 4 messages, want 6") {
		t.Error(err)
	}
	for name, bad := range map[string]Edit{
		"more than before": {Trims: true, Remove: []Hash{meta(1, 3).Hash}, Add: []FileMeta{store(1, 3, 0, 1), store(1, 3, 1, 3)}},
		"no file":          {Trims: true, Remove: hashes(layerOf(4, 9, 2))},
		"behind the end":   {Trims: true, Add: layerOf(10, 15, 2)[:1]},
	} {
		if _, err := m.Apply(bad); err == nil {
			t.Errorf("%s: it applies", name)
		}
	}
	next, err := m.Apply(e)
	check(t, err)
	if r := next.Ranges(); r[0].Messages() != 3 || !r[0].Full() || r[1].Messages() != 4 || r[1].Full() {
		t.Errorf("%v", r)
	}
	b := next.Encode()
	again, err := DecodeManifest(b)
	check(t, err)
	if b[4] != 3 || m.Encode()[4] != 2 || !slices.Equal(again.Files, next.Files) {
		t.Errorf("version %d, %v", b[4], again)
	}
	for _, lie := range []Edit{{Add: next.Files}, {Trims: true, Add: m.Files}} {
		if _, err := DecodeManifest(lie.Encode()); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%v: %v", lie.Trims, err)
		}
	}
	// What was trimmed is replaced by as much, in a wider range too.
	all := next.Replace(8, hashes(next.Files), []FileMeta{store(1, 9, 0, 2), store(1, 9, 1, 4)})
	if last, err := next.Apply(all); err != nil || all.Trims || last.Ranges()[0].Messages() != 7 {
		t.Error(err, all.Trims)
	}
}

// TestAnyLayersModel: whatever edits apply, the manifest covers its part of the stream
// once, and messages go by edits that say so alone.
func TestAnyLayersModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := Manifest{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			ranges := m.Ranges()
			var e Edit
			switch what := rapid.IntRange(0, 3).Draw(rt, "what"); {
			case what == 0 || len(ranges) == 0:
				e.Add = []FileMeta{meta(m.End()+1, m.End()+rapid.Uint64Range(1, 9).Draw(rt, "length"))}
			case what == 1 && len(ranges) > 1:
				e.Remove = hashes(ranges[0].Files)
			default:
				from := rapid.IntRange(0, len(ranges)-1).Draw(rt, "from")
				to := rapid.IntRange(from, min(len(ranges)-1, from+3)).Draw(rt, "to")
				first, last := ranges[from].First, ranges[to].Last
				for _, x := range ranges[from : to+1] {
					e.Remove = append(e.Remove, hashes(x.Files)...)
				}
				e.Add = layerOf(first, last, byte(rapid.IntRange(1, int(min(last-first+1, 5))).Draw(rt, "stores")))
				if rapid.IntRange(0, 5).Draw(rt, "broken") == 0 {
					e.Add = e.Add[1:]
				}
				e.Trims = rapid.Bool().Draw(rt, "trims")
			}
			next, err := m.Apply(e)
			if err != nil {
				continue
			}
			at := next.Oldest()
			for _, x := range next.Ranges() {
				messages := uint64(0)
				for _, f := range x.Files {
					messages += f.Messages
				}
				if x.First != at || messages > before(m, x) || messages < before(m, x) && !e.Trims {
					rt.Fatalf("%v", next)
				}
				at = x.Last + 1
			}
			if at != next.End()+1 || next.End() < m.End() || next.Oldest() < m.Oldest() {
				rt.Fatalf("%v after %v", next, m)
			}
			m = next
		}
	})
}

// before is how many messages there were in a range, or can be behind the end.
func before(m Manifest, r Range) (n uint64) {
	if r.First > m.End() {
		return r.Last - r.First + 1
	}
	for _, f := range m.Files {
		if f.First >= r.First && f.Last <= r.Last {
			n += f.Messages
		}
	}
	return n
}
