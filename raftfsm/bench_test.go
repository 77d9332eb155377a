package raftfsm

import (
	"fmt"
	"testing"
	"time"

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

// BenchmarkSnapshot captures a state of a million topics and a hundred thousand
// producers: what Apply waits for. ms/persist is what the writer beside it takes.
func BenchmarkSnapshot(b *testing.B) {
	f := newFixture(b, 1<<30)
	var builder message.Builder
	for i := range 1_000_000 {
		builder.Add(0, message.Entry{Topic: fmt.Sprintf("app/part-%d/id-%d", i%1000, i)})
		if builder.Count() == 1000 {
			f.must(EncodePublish(1, [][]byte{builder.Encode(nil, message.ProducerID{})}))
			builder.Reset()
		}
	}
	for i := range 100_000 {
		builder.Add(1, message.Entry{Topic: "app/part-0/id-0"})
		id := message.ProducerID{1, byte(i), byte(i >> 8), byte(i >> 16)}
		f.must(EncodePublish(2, [][]byte{builder.Encode(nil, id)}))
		builder.Reset()
	}
	var size int64
	var persist time.Duration
	for b.Loop() {
		s, err := f.fsm.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		begin := time.Now()
		var to countingSink
		if err := s.Persist(&to); err != nil {
			b.Fatal(err)
		}
		persist += time.Since(begin)
		size = to.n
		s.Release()
		b.StartTimer()
	}
	b.ReportMetric(float64(persist.Milliseconds())/float64(b.N), "ms/persist")
	b.ReportMetric(float64(size)/(1<<20), "MiB")
}

// countingSink drops what it gets.
type countingSink struct {
	sink
	n int64
}

func (c *countingSink) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
