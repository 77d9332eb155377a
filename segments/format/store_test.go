package format

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/message"
	"chorale/segments/chapter"
	"chorale/topic"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// storeOf writes the store of the topics that take wants, of a stream of so many
// messages from seq first on, with chapters of so many bytes, and returns its bytes and
// the records in it.
func storeOf(t testing.TB, chapter uint32, first uint64, messages, payload int, take func(name string) bool) ([]byte, []message.Record) {
	t.Helper()
	table := topic.NewTable()
	rng := rand.New(rand.NewPCG(7, uint64(messages)))
	last := map[uint32]uint64{}
	now := int64(1_700_000_000_000_000_000)
	var all []message.Record
	for seq := first; seq < first+uint64(messages); seq++ {
		id, _ := table.Intern([]byte([...]string{"a", "a-b", "a/b", "a/b/c", "a/c/d"}[rng.IntN(5)]))
		all = append(all, message.NewRecord(message.Draft{Payload: make([]byte, rng.IntN(payload))}, id, seq, last[id], now))
		last[id] = seq
		now += int64(rng.IntN(3)) * 500
	}
	var blocks [][]byte
	w := NewStoreWriter(StoreOptions{
		First: first, Last: first + uint64(messages) - 1, FirstTime: all[0].Time(), LastTime: all[len(all)-1].Time(),
		Chapter: chapter, Name: table.Name, Packer: NewPacker(),
		Keep: func(stored []byte) error {
			blocks = append(blocks, bytes.Clone(stored))
			return nil
		},
	})
	var in []message.Record
	chapters := Chapters(chapter)
	for _, r := range all {
		if chapters.Next(message.Stride(len(r))) {
			end(t, w)
		}
		if take(table.Name(r.Topic())) {
			in = append(in, r)
			if err := w.Add(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	end(t, w)
	var out bytes.Buffer
	_, _, err := w.Write(&out, func(write func([]byte)) error {
		for _, b := range blocks {
			write(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), in
}

func end(t testing.TB, w *StoreWriter) {
	t.Helper()
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
}

func everyTopic(string) bool  { return true }
func belowA(name string) bool { return strings.HasPrefix(name, "a/") }
func openStore(t testing.TB, b []byte) (*File, *StoreIndex) {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)), "x")
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.StoreIndex(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return f, x
}

// TestStoreDump shows a small store to the byte. Run with -rewrite to refresh it; a
// change of it is a change of the format.
func TestStoreDump(t *testing.T) {
	datadriven.RunTest(t, "testdata/store", func(t *testing.T, d *datadriven.TestData) string {
		var messages int
		var chapter uint32
		d.ScanArgs(t, "messages", &messages)
		d.MaybeScanArgs(t, "chapter", &chapter)
		b, _ := storeOf(t, chapter, 1000, messages, 60, belowA)
		f, x := openStore(t, b)
		var out strings.Builder
		dump(&out, "header", b[:HeaderBytes], 0)
		dump(&out, "blocks", b[HeaderBytes:HeaderBytes+f.Trailer.Blocks], HeaderBytes)
		for i, ref := range f.Trailer.Tables {
			dump(&out, KindStore.TableName(Table(i)), b[ref.Off:ref.Off+ref.Bytes], int(ref.Off))
		}
		dump(&out, "trailer", b[len(b)-TrailerBytes:], len(b)-TrailerBytes)
		for i, e := range x.Blocks {
			records, err := f.Unpack(e, b[e.Off:e.Off+int64(e.Stored)])
			if err != nil {
				t.Fatal(err)
			}
			dump(&out, fmt.Sprintf("records of block %d", i), records, 0)
		}
		return out.String()
	})
}

// sizes of chapters: none, of a few records, of some blocks, of everything.
var chapters = []uint32{0, 1 << 10, 200 << 10, ChapterBytes}

// TestStoreHoldsItsRecords: what went in comes out, block by block, in the order of the
// stream within each, and the lists name exactly the blocks that hold a topic.
func TestStoreHoldsItsRecords(t *testing.T) {
	for _, size := range chapters {
		for _, payload := range []int{2, 3000, 200_000} {
			b, want := storeOf(t, size, 5, 3000/payload*20+300, payload, everyTopic)
			holdsItsRecords(t, b, want)
		}
	}
}

func holdsItsRecords(t *testing.T, b []byte, want []message.Record) {
	f, x := openStore(t, b)
	var got []message.Record
	holds := map[uint32][]uint32{}
	for i, e := range x.Blocks {
		records, err := f.Unpack(e, b[e.Off:e.Off+int64(e.Stored)])
		if err != nil {
			t.Fatal(err)
		}
		if e.Count > 1 && len(records) > chapter.BlockBytes {
			t.Fatalf("block %d of %d records has %d bytes", i, e.Count, len(records))
		}
		for before := uint64(0); len(records) > 0; before = got[len(got)-1].Seq() {
			var r message.Record
			if r, records, err = message.Split(records); err != nil || r.Seq() <= before {
				t.Fatalf("seq %d behind %d, %v", r.Seq(), before, err)
			}
			got = append(got, r)
			if h := holds[r.Topic()]; len(h) == 0 || h[len(h)-1] != uint32(i) {
				holds[r.Topic()] = append(h, uint32(i))
			}
		}
	}
	slices.SortFunc(got, func(a, b message.Record) int { return cmp.Compare(a.Seq(), b.Seq()) })
	if !slices.EqualFunc(got, want, func(a, b message.Record) bool { return bytes.Equal(a, b) }) {
		t.Fatalf("%d records come out, %d went in", len(got), len(want))
	}
	for id, blocks := range holds {
		if list := x.Wanted(func(w uint32) bool { return w == id }); !slices.Equal(list, blocks) {
			t.Fatalf("topic %d is in blocks %v, listed are %v", id, blocks, list)
		}
	}
	if len(x.Wanted(func(uint32) bool { return false })) > 0 || len(x.Wanted(func(uint32) bool { return true })) != len(x.All()) {
		t.Fatal("none or all")
	}
	if r := Examine(bytes.NewReader(b), int64(len(b)), "x"); r.Err() != nil {
		t.Fatal(r.Findings)
	}
}

// TestListsModel: any lists survive encoding, in the only one they have.
func TestListsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		blocks := rapid.IntRange(1, 300).Draw(rt, "blocks")
		var all []*list
		want := map[uint32][]uint32{}
		for id := range uint32(rapid.IntRange(1, 8).Draw(rt, "topics")) {
			id = id*id*rapid.Uint32Range(1, 1000).Draw(rt, "id") + id
			if want[id] != nil {
				continue
			}
			l := &list{id: id}
			share := rapid.IntRange(1, 20).Draw(rt, "share")
			for b := range uint32(blocks) {
				if len(all) == 0 || rapid.IntRange(0, share).Draw(rt, "in") == 0 {
					l.add(b)
					l.add(b)
					want[id] = append(want[id], b)
				}
			}
			if want[id] != nil {
				all = append(all, l)
			}
		}
		b := appendLists(nil, all)
		x := &StoreIndex{Blocks: make([]StoreBlock, blocks)}
		var err error
		if x.lists, err = decodeLists(b, uint32(len(all)), blocks); err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(b, appendLists(nil, all)) {
			rt.Fatal("encoded again it differs")
		}
		for id, list := range want {
			if got := x.Wanted(func(w uint32) bool { return w == id }); !slices.Equal(got, list) {
				rt.Fatalf("topic %d: %v, want %v", id, got, list)
			}
		}
	})
}

// TestPackingForgets: what was packed before makes no difference, else replicas would
// differ.
func TestPackingForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		b := make([]byte, 1+rng.IntN(chapter.BlockBytes))
		for j := range b {
			b[j] = byte(rng.IntN(1 + i%7*9))
		}
		if !bytes.Equal(packing.EncodeAll(b, nil), newPacking().EncodeAll(b, nil)) {
			t.Fatalf("block %d is packed in two ways", i)
		}
	}
}

// TestEveryFlippedBitOfAStore is found by Examine and named.
func TestEveryFlippedBitOfAStore(t *testing.T) {
	for _, chapter := range []uint32{0, 3000} {
		b, _ := storeOf(t, chapter, 1, 120, 60, belowA)
		for i := range b {
			bad := bytes.Clone(b)
			bad[i] ^= 1 << (i % 8)
			r := Examine(bytes.NewReader(bad), int64(len(bad)), "name")
			if r.Err() == nil || !strings.Contains(r.Err().Error(), "name") {
				t.Fatalf("byte %d: %v", i, r.Err())
			}
			if !errors.Is(r.Err(), ErrCorrupt) && !errors.Is(r.Err(), ErrForeign) && !errors.Is(r.Err(), ErrNewer) {
				t.Fatalf("byte %d: %v", i, r.Err())
			}
		}
		for n := range b {
			if Examine(bytes.NewReader(b[:n]), int64(n), "name").Err() == nil {
				t.Fatalf("cut at %d", n)
			}
		}
	}
}

// TestStoreTablesThatLie: sound checksums over tables that say other than the records.
func TestStoreTablesThatLie(t *testing.T) {
	for _, chapter := range []uint32{0, 3000} {
		b, _ := storeOf(t, chapter, 1, 120, 60, belowA)
		f, _ := openStore(t, b)
		for _, which := range []Table{BlockTable, TopicTable, ListTable} {
			ref := f.Trailer.Tables[which]
			found := 0
			for i := range ref.Bytes {
				bad := bytes.Clone(b)
				bad[ref.Off+i] ^= 1
				tr := f.Trailer
				tr.Tables[which].Sum = message.Sum(bad[ref.Off : ref.Off+ref.Bytes])
				copy(bad[len(bad)-TrailerBytes:], tr.Encode())
				if Examine(bytes.NewReader(bad), int64(len(bad)), "name").Err() == nil {
					if which == TopicTable {
						continue // another name, which only the table knows
					}
					t.Fatalf("chapters of %d: %s, byte %d", chapter, KindStore.TableName(which), i)
				}
				found++
			}
			if found == 0 {
				t.Fatal(KindStore.TableName(which))
			}
		}
	}
}

// FuzzStoreTables: block table and list table, past their checksums. What is accepted
// has one encoding and keeps the limits of the file.
func FuzzStoreTables(f *testing.F) {
	for _, n := range []int{3, 30, 3000} {
		for _, size := range chapters {
			b, _ := storeOf(f, size, 1, n, 100, everyTopic)
			file, x := openStore(f, b)
			for _, which := range []Table{BlockTable, ListTable} {
				ref := file.Trailer.Tables[which]
				f.Add(which == ListTable, b[ref.Off:ref.Off+ref.Bytes], uint64(n), file.Header.Messages, file.Trailer.Topics, len(x.Blocks), file.Trailer.Blocks, size)
			}
		}
	}
	f.Fuzz(func(t *testing.T, isLists bool, b []byte, span, messages uint64, topics uint32, blocks int, bytesOfBlocks int64, chapter uint32) {
		if span == 0 || span > MaxMessages || bytesOfBlocks <= 0 || bytesOfBlocks > 1<<40 || blocks < 0 || blocks > 1<<16 {
			return
		}
		h := Header{Kind: KindStore, First: 1, Last: span, FirstTime: 1_700_000_000_000_000_000, LastTime: 1_700_000_000_001_000_000, Messages: messages, Chapter: chapter}
		if isLists {
			l, err := decodeLists(b, topics, blocks)
			if err != nil {
				return
			}
			var all []*list
			for i, id := range l.ids {
				one := &list{id: id}
				l.each(i, func(from, to uint32) {
					for b := from; b < to; b++ {
						one.add(b)
					}
				})
				all = append(all, one)
			}
			if again := appendLists(nil, all); !bytes.Equal(again, b) {
				t.Fatalf("%x is %x", again, b)
			}
			return
		}
		list, err := decodeStoreBlocks(b, h, bytesOfBlocks)
		if err != nil {
			return
		}
		var again []byte
		before, end := startOf(h), startOf(h)
		for _, x := range list {
			if x.Begins {
				before = end
			}
			if again = appendStoreBlock(again, h, x, before); x.First < before.last || x.FirstTime < before.time {
				t.Fatalf("%+v begins before its chapter", x)
			}
			end.add(x)
		}
		if !bytes.Equal(again, b) || uint64(end.last) >= span || end.time > h.LastTime {
			t.Fatalf("%+v", list)
		}
	})
}

// FuzzStore: a store of any bytes is reported, never a panic; also past its checksums.
func FuzzStore(f *testing.F) {
	for _, n := range []int{3, 40} {
		for _, size := range chapters {
			b, _ := storeOf(f, size, 9, n, 60, everyTopic)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		Examine(bytes.NewReader(b), int64(len(b)), "x")
		if len(b) < HeaderBytes+TrailerBytes {
			return
		}
		b = resumAll(b)
		if r := Examine(bytes.NewReader(b), int64(len(b)), "x"); r.Err() == nil && r.Messages == 0 {
			t.Fatalf("%+v", r)
		}
	})
}

// resumAll makes all checksums of a store right, as far as the lengths allow it.
func resumAll(b []byte) []byte {
	b = bytes.Clone(b)
	copy(b, resum(b[:HeaderBytes]))
	tail := b[len(b)-TrailerBytes:]
	copy(tail[52:], le32(message.Sum(tail[:52])))
	tr, err := DecodeTrailer(tail, KindStore, int64(len(b)))
	if err != nil {
		return b
	}
	for i, ref := range tr.Tables {
		tr.Tables[i].Sum = message.Sum(b[ref.Off : ref.Off+ref.Bytes])
	}
	tr.HeaderSum = message.Sum(b[:60])
	copy(tail, tr.Encode())
	return b
}

func le32(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
