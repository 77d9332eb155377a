package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	payloads = rapid.SliceOfN(rapid.Byte(), 0, 300)
	headers  = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Header {
		return Header{
			Key:   string(rapid.SliceOfN(rapid.Byte(), 1, 255).Draw(t, "key")),
			Value: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value"),
		}
	}), 0, 4)
	entries = rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{
			Topic: rapid.SampledFrom([]string{"a", "a/b", "a/b/c", "x/ /é", strings.Repeat("z", 1024)}).Draw(t, "topic"),
			Draft: Draft{Headers: headers.Draw(t, "headers"), Payload: payloads.Draw(t, "payload")},
		}
		if rapid.Bool().Draw(t, "conditional") {
			seq := rapid.Uint64().Draw(t, "expected")
			e.Expected = &seq
		}
		return e
	})
	units = rapid.SliceOfN(rapid.SliceOfN(entries, 1, 4), 1, 8)
)

// TestTheWay takes messages from the publisher to a stamped record and finds the
// same topic, headers, payload, number, condition and unit at each stop.
func TestTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var producer ProducerID
		copy(producer[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "producer"))
		all := units.Draw(t, "units")
		var b Builder
		var number uint64
		if (producer != ProducerID{}) {
			number = rapid.Uint64Range(1, 1000).Draw(t, "number")
		}
		bytesOf := buildAt(&b, number, producer, all)
		v, err := ParseBatch(bytesOf)
		if err != nil {
			t.Fatal(err)
		}
		if v.Producer != producer || v.Count != len(slices.Concat(all...)) {
			t.Fatalf("producer %x, %d messages", v.Producer, v.Count)
		}
		rest, seq := v.Records, uint64(1)
		for i, unit := range all {
			for k, e := range unit {
				var r Record
				if r, rest, err = Split(rest); err != nil {
					t.Fatal(err)
				}
				checkUnstamped(t, v, r, e, number, len(unit)-k)
				checkStamped(t, r, e, seq)
				seq++
			}
			if number > 0 && i < len(all)-1 {
				number++
			}
		}
	})
}

func buildAt(b *Builder, number uint64, producer ProducerID, all [][]Entry) []byte {
	for _, unit := range all {
		b.Add(number, unit...)
		if number > 0 {
			number++
		}
	}
	want := b.Bytes()
	out := b.Encode(nil, producer)
	if len(out) != want {
		panic(fmt.Sprintf("Bytes said %d, Encode made %d", want, len(out)))
	}
	return out
}

func checkUnstamped(t *rapid.T, v Batch, r Record, e Entry, number uint64, left int) {
	if got := string(v.Topics[r.Topic()]); got != e.Topic {
		t.Fatalf("topic %q, want %q", got, e.Topic)
	}
	if r.Number() != number || r.UnitLeft() != left {
		t.Fatalf("number %d, %d left; want %d, %d", r.Number(), r.UnitLeft(), number, left)
	}
	seq, ok := r.Expected()
	if ok != (e.Expected != nil) || ok && seq != min(*e.Expected, math.MaxUint64-1) {
		t.Fatalf("expected seq %d, %v", seq, ok)
	}
}

func checkStamped(t *rapid.T, unstamped Record, e Entry, seq uint64) {
	r := Record(slices.Clone(unstamped))
	r.Stamp(77, seq, seq-1, int64(seq)*1000)
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if r.Topic() != 77 || r.Seq() != seq || r.Prev() != seq-1 || r.Time() != int64(seq)*1000 || r.Size() != len(r) {
		t.Fatalf("stamped %d %d %d %d", r.Topic(), r.Seq(), r.Prev(), r.Time())
	}
	if !bytes.Equal(r.Body(), unstamped.Body()) {
		t.Fatal("the stamp changed the body")
	}
	if !bytes.Equal(r.Payload(), e.Draft.Payload) || r.Payload() == nil {
		t.Fatalf("payload %x, want %x", r.Payload(), e.Draft.Payload)
	}
	var got []Header
	r.EachHeader(func(key string, value []byte) bool {
		got = append(got, Header{key, value})
		return true
	})
	if !slices.EqualFunc(got, e.Draft.Headers, sameHeader) {
		t.Fatalf("headers %v, want %v", got, e.Draft.Headers)
	}
	if direct := NewRecord(e.Draft, 77, seq, seq-1, int64(seq)*1000); !bytes.Equal(direct, r) {
		t.Fatalf("NewRecord made %x, the batch %x", direct, r)
	}
	if padded := AppendPadded(nil, r); len(padded) != e.Draft.EncodedBytes() || len(padded) != Stride(len(r)) {
		t.Fatalf("stride %d, padded %d, EncodedBytes %d", Stride(len(r)), len(padded), e.Draft.EncodedBytes())
	}
}

func sameHeader(a, b Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }

// TestEveryBit flips each bit of a batch and of a stamped record: each is found.
func TestEveryBit(t *testing.T) {
	batch := buildBatch(t, "producer-one", "1 a/b expect=0 kind=text hello\n1 a/c there\n2 a/b again")
	record := []byte(NewRecord(Draft{Headers: []Header{{"kind", []byte("text")}}, Payload: []byte("hello")}, 7, 42, 40, 1700000000000000000))
	for name, c := range map[string]struct {
		bytes []byte
		check func([]byte) error
	}{
		"ParseBatch": {batch, func(b []byte) error { _, err := ParseBatch(b); return err }},
		"ReadBatch":  {batch, func(b []byte) error { _, err := ReadBatch(b); return err }},
		"Check":      {record, func(b []byte) error { return Record(b).Check() }},
	} {
		if err := c.check(c.bytes); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for bit := range 8 * len(c.bytes) {
			b := slices.Clone(c.bytes)
			b[bit/8] ^= 1 << (bit % 8)
			if err := c.check(b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: bit %d of byte %d flipped: %v", name, bit%8, bit/8, err)
			}
		}
		for n := range c.bytes {
			if err := c.check(c.bytes[:n:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: cut to %d bytes: %v", name, n, err)
			}
		}
		if err := c.check(append(slices.Clone(c.bytes), 0, 0, 0, 0, 0, 0, 0, 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: longer by 8 bytes: %v", name, err)
		}
	}
}

// TestWrongBatches edits single fields of a good batch and makes the sums right
// again: what is wrong then is the structure, and the error says what.
func TestWrongBatches(t *testing.T) {
	const good = "1 a/b expect=0 kind=text hello\n1 a/c there\n2 a/b again"
	put32 := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	put64 := func(at int, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	// Offsets as in testdata/dump: records at 0x38, 0x70, 0xa0.
	for want, edit := range map[string]func([]byte){
		"batch of 0 messages":                   put32(12, 0),
		"batch of 65537 messages":               put32(12, 1<<16+1),
		"0 bytes left, a record's head":         put32(12, 4),
		"table of 4 topics":                     put32(32, 4),
		"topic table is cut":                    func(b []byte) { b[0x29] = 1 },
		"topic table has 11 bytes too many":     put32(32, 1),
		"table of 2 topics, 12 bytes":           put32(36, 12),
		"table of 2 topics, 4294967288 bytes":   put32(36, math.MaxUint32-7),
		"topic table has 12 bytes too many":     func(b []byte) { copy(b[0x28:], make([]byte, 4)) },
		"record says 40 bytes":                  put32(0x38, 40),
		"record says 1000 bytes":                put32(0x38, 1000),
		"names topic 2 of 2":                    put32(0x74, 2),
		"message 0 names topic 1 of 2 behind 0": put32(0x3c, 1),
		"0 bytes and 1 topics are over":         put32(0x74, 0),
		"0 messages left in its unit":           put64(0x50, 0),
		"4 messages left in its unit":           put64(0x50, 4),
		"-1 messages left in its unit":          put64(0x50, math.MaxUint64),
		"2 messages left in its unit":           put64(0x88, 2),
		"message 1 has number 2, want 1":        put64(0x78, 2),
		"message 2 has number 4, want 2":        put64(0xa8, 4),
		"message 0 has no number":               put64(0x40, 0),
		"has number 1 but the batch has no":     func(b []byte) { clear(b[16:32]) },
		"message 2 of the batch: padding or":    func(b []byte) { b[0xcf] = 1 },
		"message 1 of the batch: padding or":    func(b []byte) { b[0x94] = 1 },
		"headers overrun the body":              func(b []byte) { b[0x60] = 99 },
		"bad header key":                        func(b []byte) { b[0x61] = 0 },
		"header \"kind\" overruns":              func(b []byte) { b[0x66] = 5 },
	} {
		b := buildBatch(t, "producer-one", good)
		edit(b)
		mend(b)
		if _, err := ParseBatch(b); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	b := buildBatch(t, "producer-one", good)
	b[0xcd] ^= 1
	mendBatch(b)
	if _, err := ParseBatch(b); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "body checksum") {
		t.Errorf("wrong body: %v", err)
	}
	if _, err := ReadBatch(b); err != nil {
		t.Errorf("ReadBatch looks at bodies: %v", err)
	}
}

// mend makes the sums of a batch right, of the bodies too as far as they can be
// found; mendBatch that of the whole alone.
func mend(b []byte) {
	if len(b) < BatchHeadBytes {
		return
	}
	rest := b[min(len(b), BatchHeadBytes+int(binary.LittleEndian.Uint32(b[36:]))):]
	for len(rest) > 0 {
		r, tail, err := Split(rest)
		if err != nil {
			break
		}
		binary.LittleEndian.PutUint32(r[32:], Sum(r.Body()))
		rest = tail
	}
	mendBatch(b)
}

func mendBatch(b []byte) {
	binary.LittleEndian.PutUint32(b, batchMagic)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], Sum(b[8:]))
}

// TestWrongBodies: bodies with right sums that are not the one encoding of anything.
func TestWrongBodies(t *testing.T) {
	long := Record(appendRecord(nil, Draft{Headers: []Header{{"k", make([]byte, MaxHeaderBytes)}}}))
	for name, body := range map[string][]byte{
		"a length in two bytes that fits one": {0x80, 0x00},
		"headers longer than the body":        {5, 1, 'k', 1},
		"headers without end":                 {0xff},
		"a key of no bytes":                   {2, 0, 0},
		"a key of 256 bytes":                  append([]byte{0x83, 0x02, 0x80, 0x02}, make([]byte, 257)...),
		"a key without a value":               {2, 1, 'k'},
		"a value longer than the headers":     {3, 1, 'k', 1, 'v'},
		"more headers than allowed":           long[:long.Size()].Body(),
		"a length beyond 64 bits":             {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
	} {
		r := Record(append(make([]byte, HeadBytes), body...))
		binary.LittleEndian.PutUint32(r, uint32(len(r)))
		binary.LittleEndian.PutUint32(r[32:], Sum(r.Body()))
		r.Stamp(1, 1, 0, 1)
		if err := r.Check(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSplit(t *testing.T) {
	r := NewRecord(Draft{}, 1, 1, 0, 1)
	for n, b := range map[string][]byte{"nothing": nil, "no padding": r, "a head": r[:HeadBytes], "all zero": make([]byte, 64)} {
		if _, _, err := Split(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", n, err)
		}
	}
	two := AppendPadded(AppendPadded(nil, r), NewRecord(Draft{Payload: []byte("second")}, 1, 2, 1, 1))
	first, rest, err := Split(two)
	if err != nil || !bytes.Equal(first, r) || cap(first) != len(first) {
		t.Fatalf("first record %x of capacity %d, %v", first, cap(first), err)
	}
	second, rest, err := Split(rest)
	if err != nil || string(second.Payload()) != "second" || len(rest) != 0 {
		t.Fatalf("second record %x, %d bytes left, %v", second, len(rest), err)
	}
}

func TestLimits(t *testing.T) {
	big := strings.Repeat("v", MaxHeaderBytes)
	for want, d := range map[string]Draft{
		"payload of 5 bytes: at most 4 bytes are allowed":                           {Payload: make([]byte, 5)},
		"header key of 0 bytes: 1 to 255 are allowed":                               {Headers: []Header{{"", nil}}},
		"header key of 256 bytes: 1 to 255 are allowed":                             {Headers: []Header{{strings.Repeat("k", 256), nil}}},
		"headers of 64 KiB (65541 bytes): at most 64 KiB (65536 bytes) are allowed": {Headers: []Header{{"k", []byte(big)}}},
	} {
		if err := d.Validate(4); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	full := Draft{Headers: []Header{{"k", []byte(big[:MaxHeaderBytes-5])}}, Payload: make([]byte, MaxPayloadBytes)}
	if err := full.Validate(MaxPayloadBytes); err != nil {
		t.Fatal(err)
	}
	// The largest message fits a record, and with the longest name a batch.
	var b Builder
	b.Add(1, Entry{Topic: strings.Repeat("t", 1024), Draft: full})
	batch := b.Encode(nil, ProducerID{1})
	v, err := ParseBatch(batch)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(v.Records); n > MaxRecordBytes || len(batch) > MaxBatchBytes {
		t.Errorf("record of %d bytes, limit %d; batch of %d, limit %d", n, MaxRecordBytes, len(batch), MaxBatchBytes)
	}
	over := append(batch, make([]byte, MaxBatchBytes)...)
	mendBatch(over)
	if _, err := ParseBatch(over); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("batch of %d bytes: %v", len(over), err)
	}
}

func TestBatchBytes(t *testing.T) {
	one := buildBatch(t, "", "0 a hello")
	two := append(slices.Clone(one), buildBatch(t, "", "0 b there")...)
	if n, ok := BatchBytes(two); !ok || n != len(one) {
		t.Errorf("the first of two batches: %d, %v; want %d", n, ok, len(one))
	}
	for _, cut := range []int{0, 39, len(one) - 1} {
		if _, ok := BatchBytes(one[:cut]); ok {
			t.Errorf("%d of %d bytes are taken for a whole batch", cut, len(one))
		}
	}
	// An encoding is whole wherever it is appended.
	var b Builder
	b.Add(0, Entry{Topic: "a", Draft: Draft{Payload: []byte("hello")}})
	if got := b.Encode([]byte("xyz"), ProducerID{})[3:]; !bytes.Equal(got, one) {
		t.Errorf("behind 3 bytes it is %x, want %x", got, one)
	}
	b.Reset()
	if b.Count() != 0 || b.Bytes() != BatchHeadBytes {
		t.Errorf("after Reset: %d messages, %d bytes", b.Count(), b.Bytes())
	}
}

func TestAllocations(t *testing.T) {
	const messages = 1000
	var b Builder
	buffer := fill(&b, messages)
	out := b.Encode(nil, ProducerID{})
	for name, c := range map[string]struct {
		allocs float64
		f      func()
	}{
		"build":      {0, func() { b.Reset(); buffer = fill(&b, messages) }},
		"encode":     {0, func() { out = b.Encode(out[:0], ProducerID{}) }},
		"ParseBatch": {1, func() { _, _ = ParseBatch(out) }}, // the list of topics
		"ReadBatch":  {1, func() { _, _ = ReadBatch(out) }},
	} {
		if n := testing.AllocsPerRun(10, c.f); n != c.allocs {
			t.Errorf("%s: %v allocations for %d messages, want %v", name, n, messages, c.allocs)
		}
	}
	_ = buffer
}

var topicNames = func() (out [100]string) {
	for i := range out {
		out[i] = fmt.Sprintf("app/orders/%d", i)
	}
	return out
}()

var payload128 = bytes.Repeat([]byte("0123456789abcdef"), 8)

// fill adds messages of 128 bytes over 100 topics, each a unit.
func fill(b *Builder, messages int) int {
	for i := range messages {
		b.Add(0, Entry{Topic: topicNames[i%len(topicNames)], Draft: Draft{Payload: payload128}})
	}
	return b.Bytes()
}

func TestSize(t *testing.T) {
	for n, want := range map[Size]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB (1024 bytes)", 1<<20 + 1: "1 MiB (1048577 bytes)",
		3 << 19: "1.5 MiB (1572864 bytes)", 8 << 30: "8 GiB (8589934592 bytes)", 1 << 40: "1 TiB (1099511627776 bytes)",
	} {
		if got := n.String(); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
