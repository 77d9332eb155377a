package tip

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"chorale/message"
	"chorale/topic"

	"github.com/cockroachdb/datadriven"
)

// TestGolden plays the transcripts in testdata. The commands:
//
//	tip bytes=N                    a new tip with small blocks: see small
//	append                         lines of "topic [xN] [size=N]": N messages, payload size
//	publish, reset next=N
//	ring, index, pool               what they hold
//	reader name=N filters=(..) [after=N] [method=linear|indexed]
//	read name=N [limit=N]          seqs delivered, and how far it came
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			if out == "" {
				return "ok\n"
			}
			return out
		})
	})
}

type script struct {
	tip     *Tip
	table   *topic.Table
	seq     uint64
	last    map[uint32]uint64
	readers map[string]*Reader
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "tip":
		var bytes int
		d.ScanArgs(t, "bytes", &bytes)
		*s = script{tip: small(int64(bytes)), table: topic.NewTable(), last: map[uint32]uint64{}, readers: map[string]*Reader{}}
		return fmt.Sprintf("%d chunks of %d bytes\n", len(s.tip.now().ring.slots), s.tip.now().ring.chunkBytes)
	case "append":
		for line := range strings.Lines(d.Input) {
			s.append(strings.Fields(line))
		}
		return ""
	case "publish":
		s.tip.Publish()
		return s.state()
	case "reset":
		var next uint64
		d.ScanArgs(t, "next", &next)
		s.tip.Reset(next)
		s.seq = next - 1
		return s.state()
	case "ring":
		return s.ring()
	case "index":
		return s.index()
	case "pool":
		return s.pool()
	case "reader":
		return s.reader(t, d)
	case "read":
		return s.read(t, d)
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}

func (s *script) append(words []string) {
	count, size := 1, 200
	for _, w := range words[1:] {
		if n, ok := strings.CutPrefix(w, "x"); ok {
			count, _ = strconv.Atoi(n)
		}
		if n, ok := strings.CutPrefix(w, "size="); ok {
			size, _ = strconv.Atoi(n)
		}
	}
	for range count {
		id, _ := s.table.Intern([]byte(words[0]))
		s.seq++
		s.tip.Append(s.table.Partition(id), message.NewRecord(message.Draft{Payload: make([]byte, size)}, id, s.seq, s.last[id], 1))
		s.last[id] = s.seq
	}
}

func (s *script) state() string {
	return fmt.Sprintf("floor %d, head %d\n", s.tip.Floor(), s.tip.Head())
}

func (s *script) ring() string {
	var b strings.Builder
	b.WriteString(s.state())
	g := &s.tip.now().ring
	for n := g.oldest; n < g.next; n++ {
		c := g.slot(n).Load()
		end := c.used
		if c == g.cur {
			end = g.off
		}
		fmt.Fprintf(&b, "chunk %d in slot %d, %d of %d bytes: seq", n, n%uint64(len(g.slots)), end, len(c.buf))
		for off := 0; off < end; off += c.stride(off) {
			fmt.Fprintf(&b, " %d", message.Record(c.buf[off:]).Seq())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// index shows entries by seq, those that have left the ring as "-", those not
// published in brackets.
func (s *script) index() string {
	var out strings.Builder
	for p := range s.table.Partitions() {
		x := s.tip.now().index.partition(p)
		if x == nil || x.oldest.Load() == nil {
			fmt.Fprintf(&out, "%s: idle\n", s.table.PartitionName(p))
			continue
		}
		fmt.Fprintf(&out, "%s:\n", s.table.PartitionName(p))
		for b := x.oldest.Load(); b != nil; b = b.next.Load() {
			kind := "block"
			if b.isPiece() {
				kind = "piece"
			}
			fmt.Fprintf(&out, "  %s %d:", kind, b.number)
			for i := range int(b.filled) {
				at := b.position(i)
				if at < s.tip.now().floorPosition.Load() {
					out.WriteString(" -")
					continue
				}
				c := s.tip.now().ring.chunk(at >> s.tip.now().ring.shift)
				r := message.Record(c.buf[(at-c.number<<s.tip.now().ring.shift)*unitBytes:])
				text := fmt.Sprintf("%d", r.Seq())
				if name := s.table.Name(uint32(b.entries[i] >> 32)); name != s.table.PartitionName(p) {
					text += strings.TrimPrefix(name, s.table.PartitionName(p))
				}
				if i >= int(b.visible.Load()) {
					text = "[" + text + "]"
				}
				out.WriteString(" " + text)
			}
			for range len(b.entries) - int(b.filled) {
				out.WriteString(" .")
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

func (s *script) pool() string {
	st := s.tip.Stats()
	return fmt.Sprintf("in use %d, free %d, high-water %d; %d partitions\n", st.Blocks, st.FreeBlocks, st.HighWater, st.Partitions)
}

func (s *script) reader(t *testing.T, d *datadriven.TestData) string {
	var name, method string
	var after uint64
	d.ScanArgs(t, "name", &name)
	d.MaybeScanArgs(t, "after", &after)
	d.MaybeScanArgs(t, "method", &method)
	var filters []string
	for _, a := range d.CmdArgs {
		if a.Key == "filters" {
			filters = a.Vals
		}
	}
	r := s.tip.NewReader(selection(t, s.table, filters...), after)
	switch method {
	case "linear":
		r.Force(Linear)
	case "indexed":
		r.Force(Indexed)
	}
	s.readers[name] = r
	return ""
}

func (s *script) read(t *testing.T, d *datadriven.TestData) string {
	var name string
	limit := 1 << 20
	d.ScanArgs(t, "name", &name)
	d.MaybeScanArgs(t, "limit", &limit)
	dst, p, err := s.readers[name].Read(nil, limit)
	var b strings.Builder
	for len(dst) > 0 {
		r, rest, bad := message.Split(dst)
		if bad != nil {
			t.Fatal(bad)
		}
		fmt.Fprintf(&b, "%d %s\n", r.Seq(), s.table.Name(r.Topic()))
		dst = rest
	}
	fmt.Fprintf(&b, "%d messages, scanned to %d", p.Count, p.Scanned)
	if errors.Is(err, ErrEvicted) {
		b.WriteString(", evicted")
	} else if err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}
