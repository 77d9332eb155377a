package segments

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/topic"
)

// benchStream is a segment of size bytes of messages of 128 B over partitions, all
// interleaved, on the real file system (so in the page cache).
func benchStream(b *testing.B, partitions int, size int64) *stream {
	s := newStream(b, disk.OS(b.TempDir()))
	s.log.SetTarget(size)
	fill(s, partitions, size)
	check(b, s.log.CutIfFull())
	return s
}

// fill appends size bytes of records without keeping a model.
func fill(s *stream, partitions int, size int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	ids := make([]uint32, partitions)
	for i := range ids {
		ids[i], _ = s.table.Intern(fmt.Appendf(nil, "p%d/x/t", i))
	}
	r := message.NewRecord(message.Draft{Payload: make([]byte, 128)}, 0, 1, 0, 1)
	n := size / int64(message.Stride(len(r)))
	for i := range uint64(n) + 1 {
		id := ids[rng.IntN(partitions)]
		r.Stamp(id, i+1, s.last[id], int64(i/100))
		s.last[id] = i + 1
		s.log.Append(s.table.Partition(id), r)
	}
	s.log.Publish()
}

// readThrough reads everything that the filters want and returns messages, bytes
// delivered and bytes read.
func readThrough(b *testing.B, s *stream, sel *topic.Selection, buf []byte) (messages int, delivered, read int64) {
	r := s.log.NewReader(sel, 0)
	defer r.Close()
	for at := uint64(0); at < s.log.End(); {
		out, p, err := r.Read(buf[:0], cap(buf))
		check(b, err)
		at = p.Scanned
		messages += p.Count
		delivered += int64(len(out))
	}
	return messages, delivered, r.BytesRead()
}

func benchRead(b *testing.B, s *stream, list ...string) {
	sel := topic.NewSelection(s.table, filters(b, list...))
	buf := make([]byte, 0, 1<<20)
	messages, delivered, cold := readThrough(b, s, sel, buf) // the first one reads the tables too
	var read int64
	b.ReportAllocs()
	for b.Loop() {
		_, _, read = readThrough(b, s, sel, buf)
	}
	b.ReportMetric(float64(messages)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(read)/float64(delivered), "read/delivered")
	b.ReportMetric(float64(cold)/float64(delivered), "cold/delivered")
}

// BenchmarkReadAll: everything of a file of 64 MiB.
func BenchmarkReadAll(b *testing.B) {
	for _, partitions := range []int{1, 100, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s := benchStream(b, partitions, 64<<20)
			s.build(b)
			benchRead(b, s, "**")
		})
	}
}

// BenchmarkReadOnePartition: one partition of a file of 64 MiB.
func BenchmarkReadOnePartition(b *testing.B) {
	for _, partitions := range []int{10, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s := benchStream(b, partitions, 64<<20)
			s.build(b)
			benchRead(b, s, "p7/**")
		})
	}
}

// BenchmarkReadMemory: a stretch that has no file yet.
func BenchmarkReadMemory(b *testing.B) {
	s := benchStream(b, 1000, 64<<20)
	for _, list := range []string{"**", "p7/**"} {
		b.Run(list, func(b *testing.B) { benchRead(b, s, list) })
	}
}

// BenchmarkBuild: layout, checksums, hash and write of a file of 64 MiB.
func BenchmarkBuild(b *testing.B) {
	for _, partitions := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			s := benchStream(b, partitions, 64<<20)
			stretch := s.log.view.Load().stretches[0]
			b.SetBytes(stretch.Bytes())
			for b.Loop() {
				_, err := s.log.build(stretch)
				check(b, err)
			}
		})
	}
}

// BenchmarkAppend: what an entry of 1,000 messages costs the state machine.
func BenchmarkAppend(b *testing.B) {
	s := newStream(b, disk.NewMem(1).Mount())
	s.log.SetTarget(64 << 20)
	s.log.o.PendingStretches = 1 << 30
	id, _ := s.table.Intern([]byte("a/b/c"))
	r := message.NewRecord(message.Draft{Payload: make([]byte, 128)}, id, 1, 0, 1)
	seq := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		for range 1000 {
			seq++
			r.Stamp(id, seq, seq-1, 1)
			s.log.Append(0, r)
		}
		s.log.Publish()
		if s.log.open.Bytes() >= 64<<20 { // let it go unbuilt
			s.log.open = nil
			s.log.change(func(v *view) { v.stretches = nil })
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seq), "ns/msg")
}
