package format

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/message"
	"chorale/topic"
)

// small writes a file of a few topics and returns its bytes.
func small(t testing.TB, first uint64, messages int) []byte {
	t.Helper()
	table := topic.NewTable()
	rng := rand.New(rand.NewPCG(7, uint64(messages)))
	last := map[uint32]uint64{}
	volumes := map[uint32]*TopicVolume{}
	parts := map[uint32][]message.Record{}
	var times Times
	now := int64(1_700_000_000_000_000_000)
	h := SegmentHeader(first, first+uint64(messages)-1, now, now)
	for seq := h.First; seq <= h.Last; seq++ {
		name := [...]string{"a", "a-b", "a/b", "a/b/c", "a/c/d"}[rng.IntN(5)]
		id, _ := table.Intern([]byte(name))
		r := message.NewRecord(message.Draft{Payload: make([]byte, rng.IntN(60))}, id, seq, last[id], now)
		last[id] = seq
		times.Add(now)
		h.LastTime = now
		v := volumes[id]
		if v == nil {
			v = &TopicVolume{Name: name, ID: id, First: seq}
			volumes[id] = v
		}
		v.Messages, v.Bytes, v.Last = v.Messages+1, v.Bytes+uint64(message.Stride(len(r))), seq
		parts[table.Partition(id)] = append(parts[table.Partition(id)], r)
		if rng.IntN(3) == 0 {
			now += int64(rng.IntN(1000))
		}
	}
	var list []TopicVolume
	for _, v := range volumes {
		list = append(list, *v)
	}
	slices.SortFunc(list, func(a, b TopicVolume) int { return topic.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	w := NewWriter(&out, h)
	done := map[uint32]bool{}
	for _, v := range list {
		p := table.Partition(v.ID)
		for _, r := range parts[p] {
			if !done[p] {
				w.Add(p, message.AppendPadded(nil, r))
			}
		}
		done[p] = true
	}
	if _, err := w.Finish(list, &times); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func examine(b []byte) *Report { return Examine(bytes.NewReader(b), int64(len(b)), "x.seg") }

func TestWrittenFileIsSound(t *testing.T) {
	for _, n := range []int{1, 2, 50, 2000} {
		if r := examine(small(t, 1000, n)); len(r.Findings) > 0 || r.Last-r.First+1 != uint64(n) {
			t.Fatalf("%d messages: %+v", n, r)
		}
	}
}

// TestExamineFindsEveryBit flips each bit and cuts at each length: Examine has a
// finding, of the right kind, and does not panic.
func TestExamineFindsEveryBit(t *testing.T) {
	whole := small(t, 5, 8)
	for bit := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		r := examine(b)
		if len(r.Findings) == 0 {
			t.Fatalf("bit %d of byte %d: not found", bit%8, bit/8)
		}
		kind := ErrCorrupt
		if bit/8 < 8 {
			kind = ErrForeign
		}
		if !strings.Contains(strings.Join(r.Findings, "\n"), kind.Error()) {
			t.Fatalf("byte %d: want %q, have %q", bit/8, kind, r.Findings)
		}
	}
	for n := range whole {
		if r := examine(whole[:n]); len(r.Findings) == 0 {
			t.Fatalf("cut at %d: not found", n)
		}
	}
	if r := examine(append(bytes.Clone(whole), 0)); len(r.Findings) == 0 {
		t.Fatal("a byte too many: not found")
	}
}

func TestVersionsCanBeToldApart(t *testing.T) {
	for kind, newest := range versions {
		if newest == 0 {
			continue
		}
		b := Header{Kind: Kind(kind), First: 1, Last: 2, Messages: 2}.Encode()
		b[8] = byte(newest) + 1
		if _, err := DecodeHeader(resum(b)); !errors.Is(err, ErrNewer) {
			t.Fatalf("%v of version %d: %v", Kind(kind), newest+1, err)
		}
	}
	b := SegmentHeader(1, 2, 0, 0).Encode()
	b[8]++
	if _, err := DecodeHeader(b); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a flipped version byte is damage: %v", err)
	}
	b = resum(b)
	if _, err := DecodeHeader(b); !errors.Is(err, ErrNewer) || errors.Is(err, ErrCorrupt) {
		t.Fatalf("a newer version is no damage: %v", err)
	}
	copy(b, "\x89PNG\r\n\x1a\n")
	if _, err := DecodeHeader(b); !errors.Is(err, ErrForeign) {
		t.Fatalf("a foreign file: %v", err)
	}
}

// resum makes the checksum of a header right.
func resum(b []byte) []byte {
	s := message.Sum(b[:60])
	b[60], b[61], b[62], b[63] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
	return b
}

func TestTreeOrderKeepsSubtreesTogether(t *testing.T) {
	names := []string{"a/c", "a", "a-b", "a/b", "a/b-1", "a/b/c", "a.b/c", "b", "a/b/c/d", "é/x", "a/é"}
	slices.SortFunc(names, topic.Compare)
	if got, want := fmt.Sprint(names), "[a a/b a/b/c a/b/c/d a/b-1 a/c a/é a-b a.b/c b é/x]"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	list := make([]string, 300)
	for i := range list {
		for range 1 + rng.IntN(4) {
			list[i] += "/" + string("ab-."[rng.IntN(4)]) + strings.Repeat("x", rng.IntN(2))
		}
		list[i] = list[i][1:]
	}
	slices.SortFunc(list, topic.Compare)
	list = slices.Compact(list)
	for _, root := range list { // each subtree is one run, behind its root
		left := false
		for _, name := range list[slices.Index(list, root):] {
			inside := name == root || strings.HasPrefix(name, root+"/")
			if inside && left {
				t.Fatalf("%q stands apart from %q", name, root)
			}
			left = left || !inside
		}
	}
}

func TestTimes(t *testing.T) {
	var w Times
	times := []int64{5, 5, 5, 9, 9, 100}
	for _, x := range times {
		w.Add(x)
	}
	h := SegmentHeader(11, 16, 5, 100)
	for at := int64(0); at < 110; at++ {
		want := h.First - 1
		for _, x := range times {
			if x < at {
				want++
			}
		}
		if got, err := seekTime(w.Table(), h, at); err != nil || got != want {
			t.Fatalf("time %d: behind %d (%v), want %d", at, got, err, want)
		}
	}
}
