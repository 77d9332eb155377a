package segments

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/segments/scan"
	"chorale/topic"
)

const (
	layerPartitions = 100
	layerStores     = 64
	layerBytes      = 192 << 20
)

// benchLayer is a layer of 192 MiB of messages of about 200 bytes of text over 100
// partitions of 10 topics, all interleaved; a store takes one or two partitions.
func benchLayer(b *testing.B, cacheBytes int64) *stream {
	s := newStream(b, disk.OS(b.TempDir()))
	s.log.SetTarget(64 << 20)
	s.chapter = format.ChapterBytes
	s.log.scans.Cache = scan.NewCache(cacheBytes)
	rng := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 2000)
	for i := range words {
		words[i] = fmt.Sprintf("%x ", rng.Uint32N(1<<uint(4+i%24)))
	}
	var payload []byte
	last := map[uint32]uint64{}
	for seq, size := uint64(1), int64(0); size < layerBytes; seq++ {
		p := rng.IntN(layerPartitions)
		id, _ := s.table.Intern(fmt.Appendf(nil, "p%d/x/t%d", p, rng.IntN(10)))
		payload = payload[:0]
		for len(payload) < 160 {
			payload = append(payload, words[min(rng.IntN(2000), rng.IntN(2000))]...)
		}
		r := message.NewRecord(message.Draft{Payload: payload}, id, seq, last[id], int64(seq/100))
		last[id] = seq
		s.log.Append(s.table.Partition(id), r)
		size += int64(message.Stride(len(r)))
		if seq%100 == 0 {
			s.log.Publish()
			check(b, s.log.CutIfFull())
		}
	}
	s.log.Publish()
	check(b, s.log.Cut())
	s.build(b)
	s.compact(b, 0, len(s.log.Manifest().Ranges()), layerStores, func(id uint32) int {
		return int(s.table.Partition(id)) * layerStores / layerPartitions
	})
	_, err := s.log.BuildOne()
	check(b, err)
	return s
}

// BenchmarkLayer reads a subtree of 1 % and everything, with nothing in the cache.
func BenchmarkLayer(b *testing.B) {
	s := benchLayer(b, 1)
	b.Run("subtree", func(b *testing.B) { perCPU(b, func() { benchRead(b, s, "p7/**") }) })
	b.Run("filtered", func(b *testing.B) { perCPU(b, func() { benchFilter(b, s, "p7/**") }) })
	b.Run("all", func(b *testing.B) { perCPU(b, func() { benchRead(b, s, "**") }) })
	b.Run("bare", func(b *testing.B) { perCPU(b, func() { benchBare(b, s) }) })
}

// perCPU reports the processor time of a turn, which other programs disturb less than
// the clock.
func perCPU(b *testing.B, run func()) {
	before := cpuTime(b)
	run()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkLayerCached reads a subtree of 1 % that another reader has just read.
func BenchmarkLayerCached(b *testing.B) {
	s := benchLayer(b, 64<<20)
	benchRead(b, s, "p7/**")
}

// benchFilter reads everything and drops what is not wanted: what a subtree would cost
// without stores.
func benchFilter(b *testing.B, s *stream, list ...string) {
	all, sel := topic.NewSelection(s.table, filters(b, "**")), topic.NewSelection(s.table, filters(b, list...))
	buf := make([]byte, 0, 1<<20)
	messages := 0
	for b.Loop() {
		r := s.log.NewReader(all, 0)
		for at := uint64(0); at < s.log.End(); {
			out, p, err := r.Read(buf[:0], cap(buf))
			check(b, err)
			at = p.Scanned
			for len(out) > 0 {
				rec, rest, err := message.Split(out)
				check(b, err)
				if sel.Match(rec.Topic()) {
					messages++
				}
				out = rest
			}
		}
		r.Close()
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
}

// benchBare reads, checks and decompresses the same files, and nothing else: the floor
// of reading everything.
func benchBare(b *testing.B, s *stream) {
	messages, stored, raw := uint64(0), int64(0), int64(0)
	buf := make([]byte, 0, 1<<20)
	for b.Loop() {
		for _, f := range s.log.view.Load().files {
			h, err := f.Acquire()
			check(b, err)
			x, err := f.StoreIndex(h)
			check(b, err)
			for blocks := x.Blocks; len(blocks) > 0; {
				n, size := 0, 0
				for n < len(blocks) && size+int(blocks[n].Stored) <= cap(buf) {
					size += int(blocks[n].Stored)
					n++
				}
				check(b, f.ReadStored(h, blocks[:n], buf[:size]))
				raw += bareUnpack(b, f.File, blocks[:n], buf[:size])
				stored += int64(size)
				blocks = blocks[n:]
			}
			messages += f.Meta.Messages
			check(b, f.Release())
		}
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(raw)/float64(stored), "raw/stored")
}

func bareUnpack(b *testing.B, f *format.File, blocks []format.StoreBlock, stored []byte) (n int64) {
	for _, x := range blocks {
		records, err := f.Unpack(x, stored[:x.Stored])
		check(b, err)
		n += int64(len(records))
		stored = stored[x.Stored:]
	}
	return n
}

// BenchmarkBuildLayer: what a rewrite of the stream costs, without reading it.
func BenchmarkBuildLayer(b *testing.B) {
	for _, stores := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("stores=%d", stores), func(b *testing.B) {
			s := newStream(b, disk.OS(b.TempDir()))
			var all []message.Record
			rng := rand.New(rand.NewPCG(1, 1))
			last := map[uint32]uint64{}
			bytes := int64(0)
			for seq := uint64(1); bytes < 32<<20; seq++ {
				id, _ := s.table.Intern(fmt.Appendf(nil, "p%d/x", rng.IntN(2000)))
				r := message.NewRecord(message.Draft{Payload: slices.Repeat(fmt.Appendf(nil, "%x ", rng.Uint32()), 16)}, id, seq, last[id], 1)
				last[id] = seq
				bytes += int64(message.Stride(len(r)))
				all = append(all, r)
			}
			b.SetBytes(bytes)
			for b.Loop() {
				l, err := s.log.NewStoreBuilder(1, uint64(len(all)), 1, 1, 1, format.ChapterBytes, stores, func(id uint32) int { return int(id) % stores })
				check(b, err)
				for _, r := range all {
					check(b, l.Add(r))
				}
				_, err = l.Finish(nil)
				check(b, err)
				check(b, s.log.Tidy(0, 0))
			}
		})
	}
}
