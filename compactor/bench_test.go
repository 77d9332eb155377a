package compactor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"chorale/message"
	"chorale/segments"
)

// BenchmarkBuild compacts eight segments of 4 MiB over 20,000 topics of text, which
// halves, in memory.
func BenchmarkBuild(b *testing.B) {
	const segmentsOf, topics = 4 << 20, 20_000
	h := newHistory(b, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 4000)
	for i := range words {
		words[i] = fmt.Sprintf("%x ", rng.Uint32()>>rng.IntN(20))
	}
	var inputs []segments.Hash
	var total int64
	seq := uint64(0)
	for range 8 {
		for bytes := 0; bytes < segmentsOf; {
			var payload []byte
			for len(payload) < 100+rng.IntN(600) {
				payload = append(payload, words[rng.IntN(len(words))]...)
			}
			seq++
			t := int(float64(topics) * rng.Float64() * rng.Float64() * rng.Float64())
			id, _ := h.topics.Intern(fmt.Appendf(nil, "a%d/b%d/c%d", t%7, t%91, t))
			r := message.NewRecord(message.Draft{Payload: payload}, id, seq, h.last[id], int64(seq))
			h.last[id] = seq
			h.log.Append(h.topics.Partition(id), r)
			bytes += message.Stride(len(r))
		}
		h.log.Publish()
		h.check(h.log.Cut())
		_, err := h.log.BuildOne()
		h.check(err)
		m := h.log.Proposals()
		h.install(segments.Edit{Add: m})
		inputs = append(inputs, m[0].Hash)
		total += m[0].Bytes
	}
	b.SetBytes(total)
	for b.Loop() {
		files, err := Build(context.Background(), h.log, Plan{Inputs: inputs, Stores: 8}, nil, func(context.Context, int64) error { return nil })
		h.check(err)
		var bytes int64
		for _, f := range files {
			bytes += f.Bytes
		}
		b.ReportMetric(float64(total)/float64(bytes), "in/out")
		h.check(h.log.Tidy(0, 0))
	}
}
