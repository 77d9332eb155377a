package raftfsm

import (
	"fmt"
	"testing"

	"chorale/message"

	"github.com/hashicorp/raft"
)

// BenchmarkApply applies batches of 512 messages of 128 B over 10,000 topics. The
// ns/msg is what the whole path costs, history and tip included.
func BenchmarkApply(b *testing.B) {
	const perBatch, topics, batches = 512, 10_000, 256
	payload := make([]byte, 128)
	entries := make([][]byte, batches)
	n := 0
	for i := range entries {
		var builder message.Builder
		for range perBatch {
			builder.Add(0, message.Entry{Topic: fmt.Sprintf("app/part-%d/kind-%d/id-%d", n%100, n%7, n%topics), Draft: message.Draft{Payload: payload}})
			n += 7919
		}
		entries[i] = EncodePublish(int64(i+1), [][]byte{builder.Encode(nil, message.ProducerID{})})
	}
	f := newFixture(b, 64<<20)
	index := uint64(1)
	apply := func(data []byte) {
		index++
		if r := f.fsm.Apply(&raft.Log{Index: index, Data: data}).(Result); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	for _, e := range entries {
		apply(e)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if apply(entries[i%batches]); i%512 == 511 {
			b.StopTimer()
			f.restart(64 << 20)
			index = 1
			for _, e := range entries {
				apply(e)
			}
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perBatch), "ns/msg")
}
