package tip

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"chorale/message"
	"chorale/topic"
)

var (
	modelSeed  = flag.Uint64("model.seed", 1, "first seed of TestModel")
	modelSteps = flag.Int("model.steps", 1_000_000, "steps of TestModel, over all seeds")
)

// selection compiles filters over a table.
func selection(t testing.TB, table *topic.Table, filters ...string) *topic.Selection {
	t.Helper()
	f, err := topic.ParseFilters(filters...)
	if err != nil {
		t.Fatal(err)
	}
	return topic.NewSelection(table, f)
}

// small makes a tip whose blocks are small as well, so that they come and go: of
// eight entries, or pieces of two and four; whole ones from 24 messages on.
func small(ringBytes int64) *Tip {
	tip := New(ringBytes)
	tip.now().index.init(sizes{quiet: 2, busy: 4, whole: 8, crowded: 24})
	return tip
}

// model is the naive twin: all messages ever, in a slice.
type model struct {
	t       *testing.T
	rnd     *rand.Rand
	seed    uint64
	table   *topic.Table
	tip     *Tip
	first   uint64 // seq of records[0]
	records []message.Record
	head    uint64 // published
	last    map[uint32]uint64
	readers []*modelReader
}

type modelReader struct {
	filters *topic.Filters
	reader  *Reader
	scanned uint64
}

func (m *model) fatalf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("-model.seed=%d: "+format, append([]any{m.seed}, args...)...)
}

func (m *model) next() uint64 { return m.first + uint64(len(m.records)) }

func (m *model) append() {
	partition := m.rnd.IntN(1 + m.rnd.IntN(12)) // skewed
	name := fmt.Sprintf("t/%d/%d", partition, m.rnd.IntN(1+m.rnd.IntN(6)))
	if m.rnd.IntN(8) == 0 {
		name = fmt.Sprintf("s%d", m.rnd.IntN(3))
	}
	size := m.rnd.IntN(60)
	switch m.rnd.IntN(60) {
	case 0:
		size = m.rnd.IntN(1000) // larger than a chunk
	case 1:
		if m.rnd.IntN(10) == 0 {
			size = m.rnd.IntN(6000) // larger than the ring
		}
	}
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(m.rnd.Uint32())
	}
	id, _ := m.table.Intern([]byte(name))
	r := message.NewRecord(message.Draft{Payload: payload}, id, m.next(), m.last[id], 1)
	m.last[id] = r.Seq()
	m.tip.Append(m.table.Partition(id), r)
	m.records = append(m.records, r)
}

func (m *model) publish() {
	m.tip.Publish()
	m.head = m.next() - 1
	if got := m.tip.Head(); got != m.head {
		m.fatalf("head %d, want %d", got, m.head)
	}
	if m.head > 0 {
		if err := m.tip.Wait(context.Background(), m.head-1); err != nil {
			m.fatalf("wait: %v", err)
		}
	}
}

func (m *model) reset() {
	m.publish()
	// Twice at times: a reader may stand at the head of an empty ring.
	for range 1 + m.rnd.IntN(2) {
		next := m.next() + uint64(m.rnd.IntN(3))*uint64(m.rnd.IntN(100))
		m.tip.Reset(next)
		m.first, m.records, m.head = next, nil, next-1
		for _, r := range m.readers {
			m.read(r)
		}
	}
}

// become fills another tip, from an earlier message on or a later one, and takes it over.
func (m *model) become() {
	m.publish()
	other := small(int64(MinBytes + m.rnd.IntN(8*MinBytes)))
	from := m.first + m.rnd.Uint64N(m.next()-m.first+1)
	other.Reset(from)
	for _, r := range m.records[from-m.first:] {
		other.Append(m.table.Partition(r.Topic()), r)
	}
	other.Publish()
	if m.rnd.IntN(4) == 0 {
		m.append()
		if m.tip.Become(other) {
			m.fatalf("a tip became one that ends earlier")
		}
		return
	}
	if !m.tip.Become(other) {
		m.fatalf("a tip did not become another of the same end")
	}
	if m.tip.Head() != m.head || m.tip.Floor() < from {
		m.fatalf("%d to %d are held, want some from %d to %d", m.tip.Floor(), m.tip.Head(), from, m.head)
	}
}

var modelFilters = [][]string{
	{"**"}, {"t/**"}, {"t/1/**"}, {"t/0/0"}, {"t/*/1"}, {"s1", "s2"}, {"t/0/**", "t/3/2", "s0"}, {"t/7/3", "t/9/**"}, {"none/at/all"},
}

func (m *model) subscribe() {
	f, err := topic.ParseFilters(modelFilters[m.rnd.IntN(len(modelFilters))]...)
	if err != nil {
		m.fatalf("%v", err)
	}
	after := m.tip.Floor() - 1
	if span := m.head - min(after, m.head); span > 0 {
		after += m.rnd.Uint64N(span + 1)
	}
	if m.rnd.IntN(10) == 0 {
		after = m.rnd.Uint64N(m.next() + 20)
	}
	r := &modelReader{filters: f, scanned: after, reader: m.tip.NewReader(topic.NewSelection(m.table, f), after)}
	r.reader.Force(Method(m.rnd.IntN(3)))
	if len(m.readers) < 6 {
		m.readers = append(m.readers, r)
	} else {
		m.readers[m.rnd.IntN(len(m.readers))] = r
	}
}

func (m *model) read(r *modelReader) {
	limit := m.rnd.IntN(1 + m.rnd.IntN(3000))
	prefix := []byte("kept")
	dst, p, err := r.reader.Read(prefix, limit)
	if !bytes.HasPrefix(dst, prefix) {
		m.fatalf("dst was overwritten")
	}
	got, count, size := dst[len(prefix):], 0, 0
	seq := r.scanned + 1
	for ; seq <= p.Scanned && len(m.records) > 0; seq++ {
		if seq < m.first || seq > m.head {
			break
		}
		want := message.AppendPadded(nil, m.records[seq-m.first])
		if !r.filters.Match(m.table.Name(message.Record(want).Topic())) {
			continue
		}
		if size += len(want); size > limit && count > 0 {
			m.fatalf("%d bytes were delivered, the limit is %d", size, limit)
		}
		if !bytes.HasPrefix(got, want) {
			m.fatalf("%v, method %d: seq %d is not what was appended; read from %d to %d", r.filters.Canonical(), r.reader.method, seq, r.scanned+1, p.Scanned)
		}
		got = got[len(want):]
		count++
	}
	if len(got) > 0 || count != p.Count {
		m.fatalf("%v: %d bytes too many, %d messages expected, progress %+v", r.filters.Canonical(), len(got), count, p)
	}
	m.checkStop(r, p, err, limit-size)
	r.scanned = p.Scanned
	if err != nil {
		r.scanned = max(r.scanned, m.tip.Floor()-1)
		r.reader.Seek(r.scanned)
	}
}

// checkStop holds why a read ended: evicted, at the head, or no room for the next.
func (m *model) checkStop(r *modelReader, p message.Progress, err error, room int) {
	switch {
	case p.Scanned < r.scanned:
		m.fatalf("scanned went back from %d to %d", r.scanned, p.Scanned)
	case errors.Is(err, ErrEvicted):
		if p.Scanned+1 >= m.tip.Floor() && r.reader.tip == m.tip.now() {
			m.fatalf("evicted at %d, the floor is %d", p.Scanned, m.tip.Floor())
		}
	case err != nil:
		m.fatalf("%v", err)
	case p.Scanned < m.head:
		seq := p.Scanned + 1
		for seq <= m.head && !r.filters.Match(m.table.Name(m.records[seq-m.first].Topic())) {
			seq++
		}
		// The window behind the reader may have been full without having been left.
		if p.Count == 0 || seq <= m.head && message.Stride(len(m.records[seq-m.first])) <= room {
			m.fatalf("%v: stopped at %d of %d with %d bytes of room", r.filters.Canonical(), p.Scanned, m.head, room)
		}
	}
}

// check compares ring, indexes and pool with the slice.
func (m *model) check() {
	g, x := &m.tip.now().ring, &m.tip.now().index
	floor := m.tip.Floor()
	if g.live > g.capacity && g.next-g.oldest > 1 {
		m.fatalf("%d bytes in %d chunks, capacity %d", g.live, g.next-g.oldest, g.capacity)
	}
	// Where each message of the ring lies, by its partition.
	want := map[uint32][]uint64{}
	active := map[uint32]bool{}
	seq := floor
	for n := g.oldest; n < g.next; n++ {
		c := g.slot(n).Load()
		end := g.off
		if c != g.cur {
			end = c.used
		}
		for off := 0; off < end; off += c.stride(off) {
			r := message.Record(c.buf[off:])
			if r.Seq() != seq {
				m.fatalf("chunk %d holds seq %d at %d, want %d", n, r.Seq(), off, seq)
			}
			p := m.table.Partition(r.Topic())
			want[p] = append(want[p], uint64(r.Topic())<<40|(n<<g.shift+uint64(off/unitBytes)))
			active[p] = true
			seq++
		}
	}
	if seq != m.next() {
		m.fatalf("the ring ends before %d, want %d", seq, m.next())
	}
	whole := map[*block]bool{}
	for p := range m.table.Partitions() {
		m.checkIndex(p, want[p], whole)
	}
	s := m.tip.Stats()
	if s.Partitions != len(active) {
		m.fatalf("%d partitions are active, want %d", s.Partitions, len(active))
	}
	if s.Blocks != len(whole) {
		m.fatalf("%d blocks in use, want %d", s.Blocks, len(whole))
	}
	free := 0
	for b := x.pool.free; b != nil; b = b.link {
		free++
	}
	if free != s.FreeBlocks {
		m.fatalf("%d free blocks, want %d", free, s.FreeBlocks)
	}
}

func (m *model) checkIndex(id uint32, want []uint64, whole map[*block]bool) {
	p := m.tip.now().index.partition(id)
	if p == nil {
		if len(want) > 0 {
			m.fatalf("partition %d has no index", id)
		}
		return
	}
	var got []uint64
	floor := m.tip.now().floorPosition.Load()
	for b := p.oldest.Load(); b != nil; b = b.next.Load() {
		for i := range int(b.filled) {
			if at := b.position(i); at >= floor {
				got = append(got, b.entries[i]>>32<<40|at)
			}
		}
		if b.position(int(b.filled)-1) < floor {
			m.fatalf("partition %d keeps block %d, whose messages have left", id, b.number)
		}
		if b.isPiece() {
			whole[b.carving.block] = true
		} else {
			whole[b] = true
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.fatalf("partition %d: index %x, want %x", id, got, want)
	}
	for i, at := range got {
		at &= 1<<40 - 1
		if b, n := p.seek(at); b.position(n) != at {
			if vis := int(b.visible.Load()); n < vis || i < len(got)-1 && vis == int(b.filled) {
				m.fatalf("partition %d: position %d is not found", id, at)
			}
		}
	}
}

// weigh compares what the indexes say of a stretch with the slice.
func (m *model) weigh() {
	f, err := topic.ParseFilters(modelFilters[m.rnd.IntN(len(modelFilters))]...)
	if err != nil {
		m.fatalf("%v", err)
	}
	after, until := m.rnd.Uint64N(m.next()+5), m.rnd.Uint64N(m.next()+5)
	if m.rnd.IntN(3) > 0 {
		after = max(after, m.tip.Floor()-1)
	}
	got, err := m.tip.now().weigh(topic.NewSelection(m.table, f), after, until, uint64(m.rnd.IntN(100)))
	until = min(until, m.head)
	if evicted := after < until && after+1 < m.tip.Floor(); evicted != errors.Is(err, ErrEvicted) {
		m.fatalf("weighed %d to %d, the floor is %d: %v", after+1, until, m.tip.Floor(), err)
	} else if evicted {
		return
	}
	var messages, size uint64
	for seq := after + 1; seq <= until; seq++ {
		if r := m.records[seq-m.first]; f.Match(m.table.Name(r.Topic())) {
			messages++
			size += uint64(message.Stride(len(r)))
		}
	}
	if got.Messages != messages || got.LowBytes > size || got.HighBytes < size || got.Bytes < got.LowBytes || got.Bytes > got.HighBytes {
		m.fatalf("%v from %d to %d: weighed %+v, there are %d messages of %d bytes", f.Canonical(), after+1, until, got, messages, size)
	}
}

func (m *model) step() {
	switch n := m.rnd.IntN(1000); {
	case n < 500:
		m.append()
	case n < 650:
		m.publish()
	case n < 680:
		m.subscribe()
	case n < 681:
		m.reset()
	case n < 682:
		m.become()
	case n < 685:
		m.check()
	case n < 695:
		m.weigh()
	case len(m.readers) > 0:
		m.read(m.readers[m.rnd.IntN(len(m.readers))])
	}
}

// TestModel compares the tip with the naive model through many steps; rings are so
// small that readers fall off all the time.
func TestModel(t *testing.T) {
	steps := *modelSteps
	if testing.Short() || raceEnabled {
		steps /= 10
	}
	const perSeed = 5000
	for n := range steps / perSeed {
		m := &model{t: t, seed: *modelSeed + uint64(n), table: topic.NewTable(), first: 1, last: map[uint32]uint64{}}
		m.rnd = rand.New(rand.NewPCG(m.seed, 0))
		m.tip = small(int64(MinBytes + m.rnd.IntN(4*MinBytes)))
		for range perSeed {
			m.step()
		}
	}
}
