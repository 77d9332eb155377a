package tip

import (
	"fmt"
	"testing"

	"chorale/message"
	"chorale/topic"
)

// TestPlan: what is almost everything is read by a linear pass, what is little by
// the indexes, and a few new messages by a look at each, whatever their size.
func TestPlan(t *testing.T) {
	for _, payload := range []int{32, 128, 512, 1024, 4096} {
		for _, held := range []int{40_000, 20_000} { // by the ring: all, or the newest
			t.Run(fmt.Sprintf("%d bytes, ring of %d", payload, held), func(t *testing.T) {
				testPlan(t, payload, int64(held*(payload+48)))
			})
		}
	}
}

func testPlan(t *testing.T, payload int, ring int64) {
	table, tip, seq := topic.NewTable(), New(ring), uint64(0)
	r := message.NewRecord(message.Draft{Payload: make([]byte, payload)}, 0, 1, 0, 1)
	add := func(n int) {
		for range n {
			id, _ := table.Intern(fmt.Appendf(nil, "t/%d/%d", seq%100, seq%300))
			seq++
			r.Stamp(id, seq, 0, 1)
			tip.Append(table.Partition(id), r)
		}
		tip.Publish()
	}
	add(30_000)
	for _, c := range []struct {
		filters []string
		after   uint64
		indexed bool
	}{
		{[]string{"t/7/**"}, 0, true},
		{[]string{"t/7/107", "t/9/9"}, 0, true},
		{[]string{"nothing/like/it"}, 0, true},
		{[]string{"t/**"}, 0, false},
		{[]string{"t/*/**"}, 0, false},
		{[]string{"t/7/**"}, 29_998, false},
	} {
		reader := tip.NewReader(selection(t, table, c.filters...), max(c.after, tip.Floor()-1))
		head, end := tip.now().head()
		if err := reader.place(head, end); err != nil {
			t.Fatal(err)
		}
		if got := reader.indexed(head, end); got != c.indexed {
			t.Errorf("%v after %d: indexed %v, want %v (%+v)", c.filters, c.after, got, c.indexed, reader.plan)
		}
	}
	// A wrong guess is put right: of a partition where all turns out to be wanted.
	reader := tip.NewReader(selection(t, table, "t/*/*"), tip.Floor()-1)
	for until := reader.scanned + 4*settled; reader.scanned < until; {
		if _, _, err := reader.Read(nil, 64<<10); err != nil {
			t.Fatal(err)
		}
	}
	if head, end := tip.now().head(); reader.indexed(head, end) {
		t.Errorf("everything is wanted and the indexes are still asked: %+v", reader.plan)
	}
}
