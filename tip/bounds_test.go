package tip

import (
	"fmt"
	"testing"

	"chorale/message"
	"chorale/topic"
)

// TestStalled: what a reader that is stopped inside the grace keeps the writer from using
// again is bounded by what is written meanwhile, and goes back to the bound of the reserve
// when it has left.
func TestStalled(t *testing.T) {
	const rings = 6
	tip := New(1 << 20)
	h := tip.now()
	r := message.NewRecord(message.Draft{Payload: make([]byte, 1000)}, 0, 1, 0, 1)
	seq := uint64(0)
	round := func() {
		for range (1 << 20) / message.Stride(len(r)) {
			seq++
			r.Stamp(0, seq, seq-1, 1)
			tip.Append(uint32(seq%7), r)
			tip.Publish()
		}
	}
	round()
	chunks := len(h.ring.slots)
	if rings*chunks < 2*spareChunks {
		t.Fatalf("%d chunks a ring are too few for this test", chunks)
	}
	side := h.grace.enter()
	for range rings {
		round()
	}
	waiting := len(h.young.chunks) + len(h.old.chunks)
	if waiting < (rings-1)*chunks {
		t.Errorf("%d chunks wait for a reader that has not left; %d were taken from under it", waiting, rings*chunks-waiting)
	}
	h.grace.leave(side)
	round()
	round()
	if n := len(h.young.chunks) + len(h.old.chunks) + len(h.ring.spare); n > spareChunks+chunks {
		t.Errorf("%d chunks are kept beside the ring's %d, %d are the reserve", n, chunks, spareChunks)
	}
}

// TestAtRest: a reader of very many partitions gives its cursors back at the live end, and
// one of few keeps them.
func TestAtRest(t *testing.T) {
	for _, partitions := range []int{restCursors, restCursors + 1} {
		table := topic.NewTable()
		tip := New(1 << 20)
		for i := range partitions + 1 {
			id, _ := table.Intern(fmt.Appendf(nil, "p%d/a/x", i))
			r := message.NewRecord(message.Draft{}, id, uint64(i+1), 0, 1)
			tip.Append(table.Partition(id), r)
		}
		tip.Publish()
		var filters []string
		for i := range partitions {
			filters = append(filters, fmt.Sprintf("p%d/a/**", i))
		}
		reader := tip.NewReader(selection(t, table, filters...), 0)
		reader.Force(Indexed)
		buf := make([]byte, 0, 1<<20)
		_, p, err := reader.Read(buf, cap(buf))
		if p.Count != partitions || err != nil {
			t.Fatalf("%d of %d messages: %v", p.Count, partitions, err)
		}
		_, _, err = reader.Read(buf, cap(buf))
		kept := partitions <= restCursors
		if got := len(reader.cursors) > 0; got != kept || err != nil {
			t.Errorf("%d partitions: %d cursors are kept at the live end, %v", partitions, len(reader.cursors), err)
		}
	}
}
