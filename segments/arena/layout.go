package arena

import (
	"io"
	"slices"

	"chorale/message"
	"chorale/segments/format"
	"chorale/topic"
)

// Layout is the plan of a file: the order of the records of a full arena.
// No record is copied: a counting sort by partition over places in memory.
type Layout struct {
	a          *Arena
	partitions []uint32 // in tree order
	counts     []uint32 // by partition id
	order      []Place  // of the records, partition by partition
	volumes    []format.TopicVolume
	times      format.Times
}

// NewLayout plans the file of an arena that is full. The table holds the names of
// all its topics and partitions.
func NewLayout(a *Arena, t *topic.Table) *Layout {
	p := &Layout{a: a, counts: make([]uint32, t.Partitions())}
	places, of := p.scan(t)
	slices.SortFunc(p.partitions, func(a, b uint32) int { return topic.Compare(t.PartitionName(a), t.PartitionName(b)) })
	p.order, _ = gather(places, a.partitions, p.partitions, len(p.counts))
	var ends []uint32
	p.volumes, ends = gather(p.volumes, of, p.partitions, len(p.counts))
	start := uint32(0)
	for _, id := range p.partitions {
		slices.SortFunc(p.volumes[start:ends[id]], func(a, b format.TopicVolume) int { return topic.Compare(a.Name, b.Name) })
		start = ends[id]
	}
	return p
}

// gather puts the items of each partition together, in the order of the partitions; of says
// whose each is, by ids below n. Those of a partition keep their order; ends is where they end.
func gather[T any](items []T, of, partitions []uint32, n int) (out []T, ends []uint32) {
	next := make([]uint32, n)
	for _, id := range of {
		next[id]++
	}
	at := uint32(0)
	for _, id := range partitions {
		at, next[id] = at+next[id], at
	}
	out = make([]T, len(items))
	for i, id := range of {
		out[next[id]] = items[i]
		next[id]++
	}
	return out, next
}

// scan walks the arena in the order of the stream: it counts, and returns where the
// records are, and the partitions of the topics in p.volumes.
func (p *Layout) scan(t *topic.Table) (places []Place, of []uint32) {
	places = make([]Place, p.a.count)
	volume := make([]uint32, t.Len()) // index in p.volumes + 1
	var at Place
	for i, id := range p.a.partitions {
		b, next := p.a.At(at)
		places[i], at = Place{next.chunk, next.off - uint32(len(b))}, next
		if p.counts[id]++; p.counts[id] == 1 {
			p.partitions = append(p.partitions, id)
		}
		r := message.Record(b)
		if volume[r.Topic()] == 0 {
			p.volumes = append(p.volumes, format.TopicVolume{Name: t.Name(r.Topic()), ID: r.Topic(), First: r.Seq()})
			volume[r.Topic()], of = uint32(len(p.volumes)), append(of, id)
		}
		v := &p.volumes[volume[r.Topic()]-1]
		v.Messages++
		v.Bytes += uint64(len(b))
		v.Last = r.Seq()
		p.times.Add(r.Time())
	}
	return places, of
}

// Write writes the file and describes it. It can be repeated.
func (p *Layout) Write(to io.Writer) (format.Summary, error) {
	h := format.SegmentHeader(p.a.first, p.a.Last(), p.a.firstTime, p.a.lastTime)
	w := format.NewWriter(to, h)
	order := p.order
	for _, id := range p.partitions {
		for range p.counts[id] {
			b, _ := p.a.At(order[0])
			order = order[1:]
			w.Add(id, b)
		}
	}
	return w.Finish(p.volumes, &p.times)
}
