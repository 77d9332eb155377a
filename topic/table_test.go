package topic

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadersBesideWriter lets readers check, while the writer interns, that
// whatever one view shows is complete in all the others.
func TestReadersBesideWriter(t *testing.T) {
	const topics = 8_000
	nameOf := func(i int) string { return fmt.Sprintf("p%d/q/%d", i*i%100_003, i) }
	table := NewTable()
	filters, err := ParseFilters("*/q/**") // everything, but not known as such
	if err != nil {
		t.Fatal(err)
	}
	var head atomic.Int64 // topics that a "message" has named so far
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			sel := NewSelection(table, filters)
			for done := false; !done; {
				h := int(head.Load())
				done = h == topics
				checkView(t, table, sel, h, nameOf)
			}
			if got, want := len(sel.Partitions()), int(table.Partitions()); got != want {
				t.Errorf("%d partitions were found on the way, want %d", got, want)
			}
		})
	}
	for i := range topics {
		if id, fresh := table.Intern([]byte(nameOf(i))); id != uint32(i) || !fresh {
			t.Errorf("intern %d: id %d, fresh %v", i, id, fresh)
		}
		head.Store(int64(i + 1))
	}
	readers.Wait()
}

// checkView asks about the newest topics that h says are there.
func checkView(t *testing.T, table *Table, sel *Selection, h int, nameOf func(int) string) {
	listed := map[uint32]bool{}
	for _, p := range sel.Partitions() {
		listed[p] = true
	}
	if n := int(table.Len()); n < h {
		t.Errorf("%d topics were published, Len is %d", h, n)
	}
	for i := max(0, h-20); i < h; i++ {
		name := nameOf(i)
		id, ok := table.Lookup(name)
		if !ok || id != uint32(i) || table.Name(id) != name {
			t.Errorf("%s is %d, %v; want %d", name, id, ok, i)
			return
		}
		p := table.Partition(id)
		if table.PartitionName(p) != Partition(name) || p >= table.Partitions() {
			t.Errorf("%s is in %d %s", name, p, table.PartitionName(p))
		}
		if sel.Match(id) && !listed[p] {
			t.Errorf("%s is wanted; its partition was not listed after the head was loaded", name)
		}
		last := -1
		n := int(table.Len())
		table.EachTopicOf(p, func(id uint32) bool {
			if int(id) <= last || table.Partition(id) != p {
				t.Errorf("topic %d behind %d in partition %d", id, last, p)
			}
			last = int(id)
			return true
		})
		if last < i && last < n {
			t.Errorf("partition %d ends at %d before %d", p, last, i)
		}
	}
}

// TestMemory holds what a topic costs beside the bytes of its name. The aim of the
// design is 40 for a topic; the worst case, each topic its own partition, may take
// twice that. (The issue allows 200.)
func TestMemory(t *testing.T) {
	topics := 1_000_000
	if raceEnabled {
		topics /= 20 // ten times as slow, and the bytes are the same
	}
	cases := []struct {
		name  string
		limit float64
		of    func(b []byte, i int) []byte
	}{
		{"1,000 topics a partition", 40, func(b []byte, i int) []byte { return fmt.Appendf(b, "app/%d/orders/%d", i/1000, i) }},
		{"each its own partition", 80, func(b []byte, i int) []byte { return fmt.Appendf(b, "app/%d", i) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := heapBytes()
			table, names, buf := NewTable(), 0, []byte(nil)
			for i := range topics {
				buf = c.of(buf[:0], i)
				table.Intern(buf)
				names += len(buf)
			}
			each := float64(int64(heapBytes()-before)-int64(names)) / float64(topics)
			runtime.KeepAlive(table)
			t.Logf("%.1f bytes a topic beside its name, %d topics, %d partitions", each, table.Len(), table.Partitions())
			if each > c.limit {
				t.Errorf("%.1f bytes a topic beside its name, at most %.0f are allowed", each, c.limit)
			}
		})
	}
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC() // the first may leave floating garbage of a concurrent cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestSelectionMemory: a subscription pays for the topics that it meets.
func TestSelectionMemory(t *testing.T) {
	table := NewTable()
	for i := range 20_000 {
		table.Intern(fmt.Appendf(nil, "a/%d/c", i))
	}
	filters, err := ParseFilters("a/19999/**")
	if err != nil {
		t.Fatal(err)
	}
	pages := func(s *Selection) (n int) {
		for _, p := range s.answers {
			if p != nil {
				n++
			}
		}
		return n
	}
	s := NewSelection(table, filters)
	if got := len(s.Partitions()); got != 1 || pages(s) != 0 {
		t.Errorf("%d partitions, %d pages before a topic was met; want 1, 0", got, pages(s))
	}
	if !s.Match(19_999) || s.Match(19_998) || s.Match(0) || pages(s) != 2 {
		t.Errorf("wrong answers, or %d pages around two places; want 2", pages(s))
	}
}

func TestNoAllocations(t *testing.T) {
	table := NewTable()
	names := make([][]byte, 1000)
	for i := range names {
		names[i] = fmt.Appendf(nil, "app/%d/orders/some longer level/%d", i%7, i)
		table.Intern(names[i])
	}
	filters, err := ParseFilters("app/*/orders/**", "x/y")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSelection(table, filters)
	text, ids := string(names[5]), make([]uint32, len(names))
	for name, f := range map[string]func(){
		"intern a known name": func() { table.Intern(names[5]) },
		"lookup":              func() { table.Lookup(text) },
		"lookup of all":       func() { table.LookupAll(names, ids) },
		"match a name":        func() { filters.Match(text) },
		"match an id":         func() { s.Match(5) },
		"partitions":          func() { s.Partitions() },
		"validate":            func() { _ = Validate(text) },
	} {
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func TestUnknownIDPanics(t *testing.T) {
	table := NewTable()
	table.Intern([]byte("a"))
	defer func() {
		if got, want := fmt.Sprint(recover()), "topic: id 1 is asked for, 1 are interned"; got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	table.Name(1)
}
