// Package month runs a month of compaction on the volumes of a real stream: the
// product's planner and its split decide, bytes are counted and not moved.
package month

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"chorale/compactor"
	"chorale/internal/tsv"
	"chorale/segments"
)

// A message counts with its size, at most messageCap, and what a record adds.
const (
	messageCap   = 1 << 20
	messageExtra = 48
)

// Options of a run. Zero values mean the defaults.
type Options struct {
	// Days that the stream is stretched or pressed to; default 31.
	Days int
	// SegmentBytes is where a segment is cut; default 16 MiB, as of a real node.
	SegmentBytes int64
	// Speed is how many bytes a second are compacted; default 64 MiB, as of a real node.
	Speed int64
	// Compaction is what is planned by; default compactor.DefaultSettings.
	Compaction compactor.Settings
	// Step is told of each finished day.
	Step func(Day)
}

func (o *Options) complete() error {
	def := func(p *int64, n int64) {
		if *p == 0 {
			*p = n
		}
	}
	if o.Days == 0 {
		o.Days = 31
	}
	def(&o.SegmentBytes, 16<<20)
	def(&o.Speed, 64<<20)
	if o.Compaction == (compactor.Settings{}) {
		o.Compaction = compactor.DefaultSettings()
	}
	if o.Step == nil {
		o.Step = func(Day) {}
	}
	if o.Days < 1 || o.SegmentBytes < 1 || o.Speed < 1 || o.Compaction.ChapterBytes < 1 {
		return errors.New("days, the size of a segment and of a chapter and the speed must be positive")
	}
	return o.Compaction.Validate()
}

// month is a stream and its compaction on the way.
type month struct {
	Options
	messages int     // of the stream, in all
	now      float64 // of the month, in seconds

	taken   stream
	ranges  []stretch
	open    volumes
	size    int64 // of open, in bytes
	plan    compactor.Plan
	busy    float64 // bytes of the active plan that are still to be read
	files   uint64  // made so far
	bytes   int64
	written int64
	most    int     // files, this day
	reads   []reads // of all that is compacted, by reader
}

// stretch is one range with what its topics hold.
type stretch struct {
	compactor.Range
	from, to int // in the stream
	volumes  volumes
	reads    []reads // by reader
}

// volumes are what topics hold.
type volumes map[string]compactor.Volume

func (r reads) add(o reads, sign float64) reads {
	return reads{r.read + sign*o.read, r.wanted + sign*o.wanted}
}

func (r reads) ratio() float64 {
	if r.wanted == 0 {
		return 1
	}
	return r.read / r.wanted
}

func (v volumes) add(w compactor.Volume) {
	sum := v[w.Topic]
	v[w.Topic] = compactor.Volume{Topic: w.Topic, Bytes: sum.Bytes + w.Bytes, Messages: sum.Messages + w.Messages}
}

// Run replays a sample stream, each day as many of its messages: how its topics and sizes
// change is real, how their number does is not. in is read twice.
func Run(ctx context.Context, in io.ReadSeeker, o Options) (*Report, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	m := &month{Options: o, open: make(volumes), taken: stream{ids: make(map[string]int32), known: make(map[reader]int32)}}
	if err := lines(ctx, in, func(tsv.Line) { m.messages++ }); err != nil {
		return nil, err
	}
	r := &Report{Options: o}
	if err := lines(ctx, in, func(l tsv.Line) { m.take(l, r) }); err != nil {
		return nil, err
	}
	for len(r.Days) < m.Days {
		m.day(r)
	}
	return r, nil
}

// lines reads the stream from its beginning.
func lines(ctx context.Context, in io.ReadSeeker, take func(tsv.Line)) error {
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := tsv.NewReader(in)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		take(l)
	}
	return ctx.Err()
}

const daySeconds = float64(24 * time.Hour / time.Second)

// take adds a message at its time, and ends the days before it.
func (m *month) take(l tsv.Line, r *Report) {
	at := float64(len(m.taken.entries)) / float64(m.messages) * float64(m.Days) * daySeconds
	for len(r.Days)+1 < m.Days && at >= float64(len(r.Days)+1)*daySeconds {
		m.advance(float64(len(r.Days)+1) * daySeconds)
		m.day(r)
	}
	m.advance(at)
	bytes := min(l.Size, messageCap) + messageExtra
	m.bytes += bytes
	m.taken.add(l.Topic, bytes)
	m.open.add(compactor.Volume{Topic: l.Topic, Bytes: uint64(bytes), Messages: 1})
	if m.size += bytes; m.size >= m.SegmentBytes {
		m.cut()
	}
}

func (m *month) file() (h segments.Hash) {
	m.files++
	binary.BigEndian.PutUint64(h[:], m.files)
	return h
}

// cut makes a segment of what is open.
func (m *month) cut() {
	from := 0
	if n := len(m.ranges); n > 0 {
		from = m.ranges[n-1].to
	}
	m.place(len(m.ranges), stretch{
		Range: compactor.Range{Bytes: m.size, Files: []segments.Hash{m.file()}}, from: from, to: len(m.taken.entries), volumes: m.open,
	})
	m.open, m.size = make(volumes), 0
	m.choose()
}

func (m *month) place(at int, s stretch) {
	for _, v := range s.volumes {
		s.Messages += v.Messages
	}
	m.written += s.Bytes
	m.tally(s, 1)
	m.ranges = slices.Insert(m.ranges, at, s)
	m.most = max(m.most, m.count())
}

func (m *month) count() (files int) {
	for _, r := range m.ranges {
		files += len(r.Files)
	}
	return files
}

// choose plans what is due, unless a plan is active.
func (m *month) choose() {
	if m.plan.Stores > 0 {
		return
	}
	all := make([]compactor.Range, len(m.ranges))
	for i, r := range m.ranges {
		all[i] = r.Range
	}
	p, due := compactor.Choose(all, m.Compaction)
	if !due {
		return
	}
	m.plan, m.busy = p, 0
	first, end := m.inputs()
	for _, r := range m.ranges[first:end] {
		m.busy += float64(r.Bytes)
	}
}

// inputs are the ranges [first, end) of the plan.
func (m *month) inputs() (first, end int) {
	first = slices.IndexFunc(m.ranges, func(s stretch) bool { return s.Files[0] == m.plan.Inputs[0] })
	end = first
	for n := 0; n < len(m.plan.Inputs); end++ {
		n += len(m.ranges[end].Files)
	}
	return first, end
}

// advance lets the time come to now, and plans be done meanwhile.
func (m *month) advance(now float64) {
	bytes := (now - m.now) * float64(m.Speed)
	m.now = now
	for m.plan.Stores > 0 && m.busy <= bytes {
		bytes -= m.busy
		m.install()
	}
	m.busy -= bytes
}

// install replaces the inputs of the plan by a layer. A layer counts with the bytes of its
// inputs, as if nothing could be compressed.
func (m *month) install() {
	first, end := m.inputs()
	s := stretch{Range: compactor.Range{Level: m.ranges[first].Level + 1}, from: m.ranges[first].from, to: m.ranges[end-1].to, volumes: make(volumes)}
	for _, in := range m.ranges[first:end] {
		s.Bytes += in.Bytes
		m.tally(in, -1)
		for _, v := range in.volumes {
			s.volumes.add(v)
		}
	}
	var list []compactor.Volume
	for _, v := range s.volumes {
		list = append(list, v)
	}
	tree := compactor.NewTree(list)
	split := compactor.Adaptive(tree, int(m.plan.Stores))
	s.reads = m.taken.measure(s.from, s.to, tree, split, m.plan.Chapter)
	for range split.Stores {
		s.Files = append(s.Files, m.file())
	}
	m.ranges = slices.Delete(m.ranges, first, end)
	m.place(first, s)
	m.plan, m.busy = compactor.Plan{}, 0
	m.choose()
}

// tally adds a range to what readers of everything read, or takes it away.
func (m *month) tally(s stretch, sign float64) {
	m.reads = append(m.reads, make([]reads, len(m.taken.readers)-len(m.reads))...)
	for who, r := range s.reads {
		m.reads[who] = m.reads[who].add(r, sign)
	}
}

// A reader of less is not weighed: a small topic costs a block a message, whatever the
// layout.
const largeTopic, largeSubtree = 1 << 20, 16 << 20

// day ends a day.
func (m *month) day(r *Report) {
	d := Day{
		Number: len(r.Days) + 1, Bytes: m.bytes, Files: m.count(), MostFiles: m.most,
		Budget: m.Compaction.MaxFiles + len(m.ranges), Ranges: make([]int, compactor.TopLevel+1),
	}
	for _, s := range m.ranges {
		d.Ranges[s.Level]++
		if s.Level == 0 {
			d.InSegments += s.Bytes
		}
	}
	var topics, subtrees reads
	for who, r := range m.reads {
		switch subtree := m.taken.readers[who].subtree; {
		case subtree && r.wanted >= largeSubtree:
			subtrees = subtrees.add(r, 1)
		case !subtree && r.wanted >= largeTopic:
			topics = topics.add(r, 1)
		}
	}
	d.Topics, d.Subtrees = topics.ratio(), subtrees.ratio()
	if m.bytes > 0 {
		d.Written = float64(m.written) / float64(m.bytes)
	}
	m.most = d.Files
	r.Days = append(r.Days, d)
	m.Step(d)
}

// String is the day in one line.
func (d Day) String() string {
	return fmt.Sprintf("day %d: %.1f GiB, %d files, written %.2f times", d.Number, float64(d.Bytes)/(1<<30), d.Files, d.Written)
}
