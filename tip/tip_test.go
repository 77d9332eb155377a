package tip

import (
	"errors"
	"fmt"
	"testing"

	"chorale/message"
	"chorale/topic"
)

func selection(t testing.TB, table *topic.Table, filters ...string) *topic.Selection {
	t.Helper()
	f, err := topic.ParseFilters(filters...)
	if err != nil {
		t.Fatal(err)
	}
	return topic.NewSelection(table, f)
}

func TestSmoke(t *testing.T) {
	table := topic.NewTable()
	tip := New(4096)
	r := tip.NewReader(selection(t, table, "a/1/**"), 0)
	all := tip.NewReader(selection(t, table, "**"), 0)
	var seq uint64
	for i := range 2000 {
		id, _ := table.Intern(fmt.Appendf(nil, "a/%d/x", i%5))
		seq++
		tip.Append(table.Partition(id), message.NewRecord(message.Draft{Payload: make([]byte, i%200)}, id, seq, 0, 1))
		if i%7 == 0 {
			tip.Publish()
		}
		for _, r := range []*Reader{r, all} {
			out, p, err := r.Read(nil, 300)
			if errors.Is(err, ErrEvicted) {
				if p.Scanned+1 >= tip.Floor() {
					t.Fatal("evicted")
				}
				r.Seek(tip.Floor() - 1)
			}
			n := 0
			for len(out) > 0 {
				rec, rest, err := message.Split(out)
				if err != nil {
					t.Fatal(err)
				}
				if err := rec.Check(); err != nil {
					t.Fatal(err)
				}
				out = rest
				n++
			}
			if n != p.Count {
				t.Fatal(n, p)
			}
		}
	}
	t.Logf("%+v", tip.Stats())
}
