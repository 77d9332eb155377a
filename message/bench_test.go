package message

import "testing"

// The benchmarks report ns/message at 128 bytes, in batches of 2,000 over 100
// topics.
const benchMessages = 2000

func perMessage(b *testing.B, f func()) {
	n := 0
	for b.Loop() {
		f()
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/benchMessages, "ns/message")
}

func BenchmarkAdd(b *testing.B) {
	var builder Builder
	perMessage(b, func() {
		builder.Reset()
		fill(&builder, benchMessages)
	})
}

func BenchmarkEncode(b *testing.B) {
	var builder Builder
	fill(&builder, benchMessages)
	var out []byte
	perMessage(b, func() { out = builder.Encode(out[:0], ProducerID{}) })
}

func BenchmarkParseBatch(b *testing.B) { benchRead(b, ParseBatch) }
func BenchmarkReadBatch(b *testing.B)  { benchRead(b, ReadBatch) }

func benchRead(b *testing.B, read func([]byte) (Batch, error)) {
	var builder Builder
	fill(&builder, benchMessages)
	batch := builder.Encode(nil, ProducerID{})
	perMessage(b, func() {
		if _, err := read(batch); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkStamp(b *testing.B) {
	r := NewRecord(Draft{Payload: payload128}, 1, 1, 0, 1)
	for b.Loop() {
		r.Stamp(1, 2, 1, 3)
	}
}

func BenchmarkCheck(b *testing.B) {
	r := NewRecord(Draft{Payload: payload128}, 1, 1, 0, 1)
	for b.Loop() {
		if err := r.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
