package tip_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"chorale/disk"
	"chorale/message"
	"chorale/raftfsm"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

const benchBatch = 512

// BenchmarkAppend is one message of 128 bytes through the tip, and through the whole
// append path of the state machine, of which index is the indexes' share.
func BenchmarkAppend(b *testing.B) {
	for _, partitions := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprintf("tip/partitions=%d", partitions), func(b *testing.B) { benchTip(b, partitions) })
		b.Run(fmt.Sprintf("apply/partitions=%d", partitions), func(b *testing.B) { benchApply(b, partitions) })
	}
}

func benchTip(b *testing.B, partitions int) {
	t := tip.New(256 << 20)
	r := message.NewRecord(message.Draft{Payload: make([]byte, 128)}, 0, 1, 0, 1)
	rnd := rand.New(rand.NewPCG(1, 2))
	seq := uint64(0)
	add := func() {
		id := rnd.Uint32N(uint32(partitions))
		seq++
		r.Stamp(id, seq, 0, 1)
		if t.Append(id, r); seq%benchBatch == 0 {
			t.Publish()
		}
	}
	for range 2_000_000 { // once around the ring
		add()
	}
	b.ReportAllocs()
	for b.Loop() {
		add()
	}
}

func benchApply(b *testing.B, partitions int) {
	const batches = 64
	rnd := rand.New(rand.NewPCG(1, 2))
	names := make([]string, benchBatch)
	entries := make([][]byte, batches)
	for i := range entries {
		var builder message.Builder
		for range names {
			p := rnd.IntN(partitions)
			builder.Add(0, message.Entry{Topic: fmt.Sprintf("bench/p%d/t", p), Draft: message.Draft{Payload: make([]byte, 128)}})
		}
		entries[i] = raftfsm.EncodePublish(int64(i+1), [][]byte{builder.Encode(nil, message.ProducerID{})})
	}
	var whole time.Duration
	messages := 0
	for b.Loop() {
		b.StopTimer()
		apply := newMachine(b)
		for _, e := range entries { // topics are interned, memory is touched
			apply(e)
		}
		b.StartTimer()
		start := time.Now()
		for _, e := range entries {
			apply(e)
		}
		whole += time.Since(start)
		messages += batches * benchBatch
	}
	perMessage := float64(whole) / float64(messages)
	index := indexAlone(partitions)
	b.ReportMetric(perMessage, "ns/msg")
	b.ReportMetric(index, "index-ns/msg")
	b.ReportMetric(100*index/perMessage, "index-%")
}

// newMachine is a state machine over files in memory.
func newMachine(b *testing.B) (apply func([]byte)) {
	topics := topic.NewTable()
	history, err := segments.Open(segments.Options{FS: disk.NewMem(1), Dir: "data", Topics: topics, PendingStretches: 2})
	if err != nil {
		b.Fatal(err)
	}
	fsm := raftfsm.New(raftfsm.Options{
		Topics: topics, Tip: tip.New(64 << 20), History: history,
		Halt: func(err error) { b.Error(err) }, Mismatch: func(err error) { b.Error(err) },
	})
	index := uint64(0)
	apply = func(data []byte) {
		index++
		if r := fsm.Apply(&raft.Log{Index: index, Data: data}).(raftfsm.Result); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	apply(raftfsm.EncodeGenesis(raftfsm.Genesis{Cluster: raftfsm.ClusterID{1}, SegmentBytes: 256 << 20}))
	return apply
}

// indexAlone is what the entry of a message costs, publishing included.
func indexAlone(partitions int) float64 {
	t := tip.New(1 << 30)
	t.Append(0, message.NewRecord(message.Draft{}, 0, 1, 0, 1))
	rnd := rand.New(rand.NewPCG(1, 2))
	ids := make([]uint32, 64*benchBatch)
	for i := range ids {
		ids[i] = rnd.Uint32N(uint32(partitions))
	}
	var took time.Duration
	const rounds = 20
	for n := range rounds + 1 {
		start := time.Now()
		for i, id := range ids {
			if t.AddEntry(id, id); i%benchBatch == benchBatch-1 {
				t.PublishEntries()
			}
		}
		if n > 0 {
			took += time.Since(start)
		}
	}
	return float64(took) / float64(rounds*len(ids))
}

// BenchmarkOneTopic recovers one topic of 80,000 that share a partition, which has
// 300,000 messages in the ring: by a linear pass, by all entries of the partition's
// index, and by the sketches of its blocks.
func BenchmarkOneTopic(b *testing.B) {
	const topics, messages = 80_000, 300_000
	for _, way := range []string{"linear", "entries", "sketches"} {
		table, t := topic.NewTable(), tip.New(256<<20)
		for i := range topics {
			table.Intern(fmt.Appendf(nil, "a/b/t%d", i))
		}
		r := message.NewRecord(message.Draft{Payload: make([]byte, 128)}, 0, 1, 0, 1)
		rnd := rand.New(rand.NewPCG(1, 2))
		for seq := uint64(1); seq <= messages; seq++ {
			r.Stamp(rnd.Uint32N(topics), seq, 0, 1)
			t.Append(0, r)
		}
		t.Publish()
		f, err := topic.ParseFilters("a/b/t777")
		if err != nil {
			b.Fatal(err)
		}
		if way == "entries" {
			t.NoSketches()
		}
		b.Run(way, func(b *testing.B) {
			buf := make([]byte, 0, 64<<10)
			for b.Loop() {
				reader := t.NewReader(topic.NewSelection(table, f), 0)
				reader.Force(tip.Indexed)
				if way == "linear" {
					reader.Force(tip.Linear)
				}
				if _, p, err := reader.Read(buf, cap(buf)); err != nil || p.Scanned != messages {
					b.Fatal(p, err)
				}
			}
		})
	}
}

// BenchmarkLive is a reader at the live end: 10 new messages, then a Read.
func BenchmarkLive(b *testing.B) {
	const partitions = 10_000
	for _, filter := range []string{"a/7/**", "a/**", "**"} {
		b.Run(filter, func(b *testing.B) {
			table, t := topic.NewTable(), tip.New(16<<20)
			for i := range partitions {
				table.Intern(fmt.Appendf(nil, "a/%d/x", i))
			}
			f, err := topic.ParseFilters(filter)
			if err != nil {
				b.Fatal(err)
			}
			reader := t.NewReader(topic.NewSelection(table, f), 0)
			r := message.NewRecord(message.Draft{Payload: make([]byte, 128)}, 0, 1, 0, 1)
			buf, seq := make([]byte, 0, 64<<10), uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				for range 10 {
					seq++
					r.Stamp(uint32(seq*7919%partitions), seq, 0, 1)
					t.Append(uint32(seq*7919%partitions), r)
				}
				t.Publish()
				if _, p, err := reader.Read(buf, cap(buf)); err != nil || p.Scanned != seq {
					b.Fatal(p, err)
				}
			}
		})
	}
}
