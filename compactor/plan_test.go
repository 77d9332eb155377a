package compactor

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"chorale/segments"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// TestPlans runs testdata/plan:
//
//	choose fan-out=N [store-bytes=N max-stores=N max-files=N keep-bytes=N keep-time=N]
//	    what is due for the ranges of the input, oldest first: their levels, or
//	    level:bytes, level:bytes:files, level:bytes:files:messages,
//	    level:bytes:files:messages:span
//	month rate=N speed=N ratio=N
//	    a month of ingest at a rate and compaction at a speed in MiB/s, in a table
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata/plan", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := DefaultSettings()
			d.MaybeScanArgs(t, "fan-out", &s.FanOut)
			d.MaybeScanArgs(t, "store-bytes", &s.StoreBytes)
			d.MaybeScanArgs(t, "max-stores", &s.MaxStores)
			d.MaybeScanArgs(t, "max-files", &s.MaxFiles)
			var bytes, age int64
			d.MaybeScanArgs(t, "keep-bytes", &bytes)
			d.MaybeScanArgs(t, "keep-time", &age)
			s = s.Within(bytes, age)
			if d.Cmd == "choose" {
				return chosen(t, d.Input, s)
			}
			m := newMonth(s, 64<<20, 1)
			var rate, speed int64
			d.ScanArgs(t, "rate", &rate)
			d.ScanArgs(t, "speed", &speed)
			d.ScanArgs(t, "ratio", &m.ratio)
			m.speed = float64(speed) / float64(rate)
			return m.table(rate << 20)
		})
	})
}

func chosen(t *testing.T, input string, s Settings) string {
	ranges := parseRanges(t, input)
	p, ok := Choose(ranges, s)
	if !ok {
		return "nothing\n"
	}
	first := binary.BigEndian.Uint64(p.Inputs[0][:])
	last := binary.BigEndian.Uint64(p.Inputs[len(p.Inputs)-1][:])
	return fmt.Sprintf("ranges %d to %d: %d files, at most %d stores\n", first, last, len(p.Inputs), p.Stores)
}

func parseRanges(t *testing.T, input string) (ranges []Range) {
	for i, word := range strings.Fields(input) {
		numbers := []int64{0, 64 << 20, 1, 1000, 0}
		for j, f := range strings.Split(word, ":") {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", word, err)
			}
			numbers[j] = n
		}
		r := Range{Level: int(numbers[0]), Bytes: numbers[1], Messages: uint64(numbers[3]), Span: numbers[4]}
		for range numbers[2] {
			r.Files = append(r.Files, number(i+1))
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// number is a hash that tells which range it is of.
func number(i int) (h segments.Hash) {
	binary.BigEndian.PutUint64(h[:], uint64(i))
	return h
}

// month is a stream and its compaction as sizes alone. Time is told in bytes of the
// stream.
type month struct {
	Settings
	segment int64   // bytes at which a segment is cut
	speed   float64 // bytes compacted, segments' bytes, for each byte of the stream
	ratio   float64 // bytes of segments for a byte of stores
	rng     *rand.Rand

	ranges  []Range
	raw     map[segments.Hash]int64 // of ranges, by their first file
	files   int                     // made so far
	stream  int64
	written int64
	busy    float64 // what is left of the active plan
	plan    Plan
	now     census
	most    int // files, ever
}

// census is what there is.
type census struct {
	perLevel [TopLevel + 1]int // ranges
	files    int
	newest   int64 // bytes of the stream in segments
}

func (c *census) count(r Range, sign int) {
	c.perLevel[r.Level] += sign
	c.files += sign * len(r.Files)
	if r.Level == 0 {
		c.newest += int64(sign) * r.Bytes
	}
}

func newMonth(s Settings, segment int64, seed uint64) *month {
	return &month{
		Settings: s, segment: segment, speed: 64, ratio: 3,
		rng: rand.New(rand.NewPCG(seed, 0)), raw: make(map[segments.Hash]int64),
	}
}

func (m *month) file() segments.Hash {
	m.files++
	return number(m.files)
}

// cut adds a segment: the target and what the last entry had beyond it.
func (m *month) cut() {
	bytes := m.segment + m.rng.Int64N(m.segment/16+1)
	m.add(len(m.ranges), Range{Bytes: bytes, Files: []segments.Hash{m.file()}}, bytes)
	m.stream += bytes
	m.compact(float64(bytes) * m.speed)
	m.most = max(m.most, m.now.files)
}

func (m *month) add(at int, r Range, raw int64) {
	m.raw[r.Files[0]] = raw
	m.written += r.Bytes
	m.now.count(r, 1)
	m.ranges = slices.Insert(m.ranges, at, r)
}

// compact lets so many bytes be compacted.
func (m *month) compact(bytes float64) {
	for {
		if m.plan.Stores == 0 {
			p, ok := Choose(m.ranges, m.Settings)
			if !ok {
				return
			}
			first, end := m.inputs(p)
			m.plan, m.busy = p, 0
			for _, r := range m.ranges[first:end] {
				m.busy += float64(m.raw[r.Files[0]])
			}
		}
		if m.busy > bytes {
			m.busy -= bytes
			return
		}
		bytes -= m.busy
		m.install()
	}
}

// inputs are the ranges [first, end) of a plan.
func (m *month) inputs(p Plan) (first, end int) {
	for m.ranges[first].Files[0] != p.Inputs[0] {
		first++
	}
	for n := 0; n < len(p.Inputs); end++ {
		if end >= first {
			n += len(m.ranges[end].Files)
		}
	}
	return first, end
}

func (m *month) install() {
	first, end := m.inputs(m.plan)
	r := Range{Level: m.ranges[first].Level + 1}
	var raw int64
	for _, in := range m.ranges[first:end] {
		raw += m.raw[in.Files[0]]
		delete(m.raw, in.Files[0])
		m.now.count(in, -1)
	}
	r.Bytes = int64(float64(raw) / m.ratio)
	for range m.plan.Stores {
		r.Files = append(r.Files, m.file())
	}
	m.ranges = slices.Delete(m.ranges, first, end)
	m.add(first, r, raw)
	m.plan = Plan{}
}

func (m *month) amplification() float64 { return float64(m.written) / float64(m.stream) }

// table is the month, day by day: the data of the plot in the docs.
func (m *month) table(rate int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3s %8s %8s %9s %7s %7s %7s %7s %10s %9s\n", "day", "GiB",
		"segments", "segm. MiB", "level 1", "level 2", "level 3", "files", "written/in", "files max")
	for day := 1; day <= 31; day++ {
		for m.stream < int64(day)*86400*rate {
			m.cut()
		}
		c := m.now
		fmt.Fprintf(&b, "%3d %8.1f %8d %9d %7d %7d %7d %7d %10.2f %9d\n", day, float64(m.stream)/(1<<30),
			c.perLevel[0], c.newest>>20, c.perLevel[1], c.perLevel[2], c.perLevel[3], c.files, m.amplification(), m.most)
		m.most = 0
	}
	return b.String()
}

// Whatever the stream, as long as a plan of the highest level is done before FanOut
// segments are cut: few ranges of every level below the top, so few files and a
// small newest part, and nothing is written more than four times.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			FanOut:     rapid.IntRange(2, 8).Draw(t, "fan-out"),
			StoreBytes: rapid.Int64Range(1<<10, 1<<20).Draw(t, "store bytes"),
			MaxStores:  rapid.IntRange(1, 300).Draw(t, "max stores"),
			MaxFiles:   rapid.IntRange(1, 5000).Draw(t, "max files"),
		}
		m := newMonth(s, rapid.Int64Range(1<<10, 8<<20).Draw(t, "segment bytes"), rapid.Uint64().Draw(t, "seed"))
		m.ratio = rapid.Float64Range(1, 20).Draw(t, "ratio")
		m.speed = float64(s.FanOut*s.FanOut) * rapid.Float64Range(1.1, 10).Draw(t, "speed")
		for range rapid.IntRange(1, 3000).Draw(t, "segments") {
			m.cut()
			m.check(t)
		}
	})
}

func (m *month) check(t *rapid.T) {
	f := int64(m.FanOut)
	most := m.segment + m.segment/16
	for level, n := range m.now.perLevel {
		if level < TopLevel && int64(n) > 3*f {
			t.Fatalf("%d ranges of level %d, fan-out %d", n, level, f)
		}
	}
	if m.now.newest > 3*f*most {
		t.Fatalf("%d bytes in segments of %d bytes, fan-out %d", m.now.newest, most, f)
	}
	if m.now.files > m.MaxFiles+len(m.ranges) {
		t.Fatalf("%d files of %d ranges, budget %d", m.now.files, len(m.ranges), m.MaxFiles)
	}
	if top := m.stream / (f * f * f * m.segment); int64(m.now.perLevel[TopLevel]) > top {
		t.Fatalf("%d ranges of the top level, at most %d", m.now.perLevel[TopLevel], top)
	}
	if m.written > 4*m.stream {
		t.Fatalf("%d bytes written for a stream of %d", m.written, m.stream)
	}
	for i, r := range m.ranges[1:] {
		if r.Level > m.ranges[i].Level {
			t.Fatalf("range %d of level %d stands before one of level %d", i, m.ranges[i].Level, r.Level)
		}
	}
}
