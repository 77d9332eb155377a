package format

import (
	"bytes"
	"testing"

	"chorale/message"
)

// FuzzHeader: whatever is accepted is encoded again as the same bytes.
func FuzzHeader(f *testing.F) {
	f.Add(SegmentHeader(1, 9, 3, 4).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHeader(b)
		if err == nil && !bytes.Equal(h.Encode(), b[:HeaderBytes]) {
			t.Fatalf("%+v is not %x", h, b)
		}
		if len(b) >= HeaderBytes { // get past the checksum
			_, _ = DecodeHeader(resum(bytes.Clone(b[:HeaderBytes])))
		}
	})
}

// FuzzTrailer: whatever is accepted is encoded again as the same bytes, and its
// tables lie within the file.
func FuzzTrailer(f *testing.F) {
	whole := small(f, 1, 9)
	f.Add(whole[len(whole)-TrailerBytes:], int64(len(whole)))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if len(b) == TrailerBytes {
			b = bytes.Clone(b)
			s := message.Sum(b[:52])
			b[52], b[53], b[54], b[55] = byte(s), byte(s>>8), byte(s>>16), byte(s>>24)
		}
		tr, err := DecodeTrailer(b, KindSegment, size)
		if err != nil {
			return
		}
		if !bytes.Equal(tr.Encode(), b) {
			t.Fatalf("%+v is not %x", tr, b)
		}
		last := tr.Tables[tableCount-1]
		if tr.Tables[0].Off != HeaderBytes+tr.Blocks || last.Off+last.Bytes+TrailerBytes != size {
			t.Fatalf("tables %+v in a file of %d", tr.Tables, size)
		}
	})
}

// FuzzFooter: the three tables, past their checksums. What is accepted has one
// encoding and keeps the limits of the file.
func FuzzFooter(f *testing.F) {
	for _, n := range []int{1, 20, 300} {
		whole := small(f, 1, n)
		file, err := Open(bytes.NewReader(whole), int64(len(whole)), "x")
		if err != nil {
			f.Fatal(err)
		}
		for which, ref := range file.Trailer.Tables {
			f.Add(which, whole[ref.Off:ref.Off+ref.Bytes], uint32(n), file.Trailer.Topics, file.Trailer.Blocks)
		}
	}
	f.Fuzz(func(t *testing.T, which int, b []byte, messages, topics uint32, blocks int64) {
		h := SegmentHeader(1, max(1, uint64(messages)), 10, 1<<40)
		if blocks <= 0 || blocks > 1<<40 {
			return
		}
		switch Table(which) {
		case BlockTable:
			list, err := decodeBlocks(b, h, blocks)
			if err != nil {
				return
			}
			var again []byte
			before := Block{}
			for _, x := range list {
				again = appendBlock(again, x, before)
				before = x
			}
			if x, err := newIndex(list); err == nil && x.Partitions() > len(list) || !bytes.Equal(again, b) {
				t.Fatalf("%+v", list)
			}
		case TopicTable:
			list, err := decodeTopics(b, h, Trailer{Topics: topics, Blocks: blocks})
			if err == nil && !bytes.Equal(appendTopics(nil, h.First, list), b) {
				t.Fatalf("%+v is not %x", list, b)
			}
		case TimeTable:
			for _, at := range []int64{0, 10, 1 << 30, 1 << 50} {
				if after, err := seekTime(b, h, at); err == nil && after > h.Last {
					t.Fatalf("behind %d of %d", after, h.Last)
				}
			}
		}
	})
}

// FuzzExamine: a whole file of any bytes is reported, never a panic.
func FuzzExamine(f *testing.F) {
	f.Add(small(f, 1, 3))
	f.Add(small(f, 9, 40))
	f.Fuzz(func(t *testing.T, b []byte) { examine(b) })
}
