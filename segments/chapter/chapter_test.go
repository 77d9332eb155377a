package chapter

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"chorale/message"
	"chorale/topic"

	"pgregory.net/rapid"
)

// TestCutter: a chapter ends before the record that would make it too large.
func TestCutter(t *testing.T) {
	c := Cutter{Bytes: 100}
	var begins []bool
	for _, n := range []int{40, 60, 8, 200, 8, 92, 8} {
		begins = append(begins, c.Next(n))
	}
	if want := []bool{false, false, true, true, true, false, true}; !slices.Equal(begins, want) {
		t.Errorf("%v, want %v", begins, want)
	}
}

// drawn is a stream of messages over a small tree, some of whose topics are large.
func drawn(t *rapid.T) (names []string, records []message.Record) {
	sizes := make(map[uint32]int)
	for i := range rapid.IntRange(1, 30).Draw(t, "topics") {
		name := fmt.Sprintf("%c/%d", 'a'+i%3, i/3%4)
		if i%5 > 0 {
			name += fmt.Sprintf("/%d", i)
		}
		if !slices.Contains(names, name) {
			sizes[uint32(len(names))] = rapid.SampledFrom([]int{1, 100, 3000, 30_000, 100_000}).Draw(t, "size")
			names = append(names, name)
		}
	}
	for seq := range uint64(rapid.IntRange(1, 60).Draw(t, "messages")) {
		id := rapid.Uint32Range(0, uint32(len(names)-1)).Draw(t, "topic")
		payload := make([]byte, rapid.IntRange(0, sizes[id]).Draw(t, "bytes"))
		records = append(records, message.NewRecord(message.Draft{Payload: payload}, id, seq+1, 0, 0))
	}
	return names, records
}

// block is the records of a block.
type block []message.Record

func (b block) bytes() (n int) {
	for _, r := range b {
		n += message.Stride(len(r))
	}
	return n
}

func (b block) topics() (ids []uint32) {
	for _, r := range b {
		if !slices.Contains(ids, r.Topic()) {
			ids = append(ids, r.Topic())
		}
	}
	return ids
}

func layOut(t *rapid.T, c *Chapter, names []string, records []message.Record) (out []block) {
	for _, r := range records {
		c.Add(r)
	}
	err := c.End(new(Scratch), func(id uint32) string { return names[id] }, func(records []byte) error {
		var b block
		for rest := bytes.Clone(records); len(rest) > 0; {
			r, next, err := message.Split(rest)
			if err != nil {
				return err
			}
			b, rest = append(b, r), next
		}
		out = append(out, b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChapter: every record stands in one block; within a block in the order of the
// stream; blocks keep their bound; large topics share none, and the topics of the blocks
// follow on each other in the order of the tree. The same again from the same chapter.
func TestChapter(t *testing.T) {
	var c Chapter
	rapid.Check(t, func(t *rapid.T) {
		names, records := drawn(t)
		blocks := layOut(t, &c, names, records)
		if again := layOut(t, new(Chapter), names, records); fmt.Sprint(again) != fmt.Sprint(blocks) {
			t.Fatal("a chapter that was used lays out in another way")
		}
		volume := make(map[uint32]int)
		for _, r := range records {
			volume[r.Topic()] += message.Stride(len(r))
		}
		seen, before := make(map[uint64]bool), ""
		for i, b := range blocks {
			if len(b) > 1 && b.bytes() > BlockBytes {
				t.Fatalf("block %d: %d records of %d bytes", i, len(b), b.bytes())
			}
			seq := uint64(0)
			for _, r := range b {
				if r.Seq() <= seq || seen[r.Seq()] || !bytes.Equal(r, records[r.Seq()-1]) {
					t.Fatalf("block %d: seq %d behind %d", i, r.Seq(), seq)
				}
				seq, seen[r.Seq()] = r.Seq(), true
			}
			ids := b.topics()
			slices.SortFunc(ids, func(a, b uint32) int { return topic.Compare(names[a], names[b]) })
			if topic.Compare(before, names[ids[0]]) > 0 {
				t.Fatalf("block %d: %s behind %s", i, names[ids[0]], before)
			}
			before = names[ids[len(ids)-1]]
			for _, id := range ids {
				if len(ids) > 1 && volume[id] >= aloneBytes {
					t.Fatalf("block %d: %s has %d bytes and shares a block", i, names[id], volume[id])
				}
			}
		}
		if len(seen) != len(records) {
			t.Fatalf("%d records of %d", len(seen), len(records))
		}
	})
}

// TestApart: the fewer levels neighbours have in common, the sooner a block ends between
// them.
func TestApart(t *testing.T) {
	for _, x := range []struct {
		a, b   string
		shared int // from which on they are apart
	}{
		{"a", "b", 2 << 10},
		{"a", "a/b", 4 << 10},
		{"a/b", "a/c", 4 << 10},
		{"a/b", "a/bc", 4 << 10},
		{"a/b/c", "a/b/d", 8 << 10},
		{"a/b/c/d", "a/b/c/e", 16 << 10},
		{"a/b/c/d/e/f/g", "a/b/c/d/e/f/h", BlockBytes - 8 + 1},
	} {
		for _, bytes := range []int{x.shared - 1, x.shared} {
			s := Shared{name: x.a, last: 8, bytes: bytes}
			if got := s.Next(x.b, 8); got != (bytes < x.shared) {
				t.Errorf("%s shares with %s and %d bytes before: %v", x.b, x.a, bytes, got)
			}
		}
	}
	large, small := Shared{name: "a/b", last: aloneBytes, bytes: aloneBytes}, Shared{name: "a/b", last: 8, bytes: 8}
	if large.Next("a/c", 8) || small.Next("a/c", aloneBytes) {
		t.Error("a large topic shares a block")
	}
}

// TestMixed: a chapter of version 1 is what was added, whatever the topics.
func TestMixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, records := drawn(t)
		var got []message.Record
		for _, b := range layOut(t, &Chapter{Mixed: true}, names, records) {
			got = append(got, b...)
		}
		if !slices.EqualFunc(got, records, func(a, b message.Record) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%d records come out, %d went in", len(got), len(records))
		}
	})
}
