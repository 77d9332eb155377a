package procs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"chorale/client"
	"chorale/internal/procs"
	"chorale/jepsen/history"
)

// meter is what a client sees of its cluster between two readings. Safe for concurrent
// use.
type meter struct {
	mu      sync.Mutex
	last    time.Time // answer
	tip     uint64    // highest seq that was answered
	acked   int
	longest time.Duration // without an answer
	errs    []error
	waits   int // that the client told of; it deals with them
}

func (m *meter) answer(seq uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if !m.last.IsZero() {
		m.longest = max(m.longest, now.Sub(m.last))
	}
	m.last, m.tip = now, max(m.tip, seq)
	if err != nil {
		m.errs = append(m.errs, err)
		return
	}
	m.acked++
}

func (m *meter) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = append(m.errs, err)
}

func (m *meter) wait(w client.Wait) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.Err != nil {
		m.waits++
	}
}

// reading is what a meter showed, or the worst and the sum of several.
type reading struct {
	acked, waits int
	longest      time.Duration
	errs         []error
}

// read reads the meter and sets it back. A wait that is under way counts as long as it
// lasts already, and again in the next reading.
func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := reading{acked: m.acked, waits: m.waits, longest: m.longest, errs: m.errs}
	if !m.last.IsZero() {
		out.longest = max(out.longest, time.Since(m.last))
	}
	m.acked, m.waits, m.longest, m.errs = 0, 0, 0, nil
	return out
}

func (r *reading) add(other reading) {
	r.acked += other.acked
	r.waits += other.waits
	r.longest = max(r.longest, other.longest)
	r.errs = append(r.errs, other.errs...)
}

// steady publishes at a rate, whatever becomes of what it has published: what was due
// while it could not go on is sent when it can.
func (p *publisher) steady(ctx context.Context, perSecond float64) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for sent := 0.0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := time.Since(begin).Seconds() * perSecond; sent < due; sent++ {
			if err := p.publish(ctx, p.draw()); err != nil {
				return
			}
		}
	}
}

// load is the traffic of a cluster that changes: publishers at a fixed rate, readers that
// follow, and clients that recover. All of them know every node that there ever was.
type load struct {
	*arena
	publishers []*publisher
	readers    meter
	recoveries atomic.Int64
	// The publishers stop first, so that what they have sent is answered.
	sending, reading sync.WaitGroup
	silence, stop    context.CancelFunc
	steps            []step

	mu    sync.Mutex
	nodes []*procs.Node
}

// step is one change of the cluster and what its clients saw of it.
type step struct {
	what       string
	begin, end time.Time
	publishing reading
	reading    reading
}

// begin starts the traffic.
func (a *arena) begin(nodes ...*procs.Node) *load {
	l := &load{arena: a, nodes: slices.Clone(nodes)}
	var ctx, sends context.Context
	ctx, l.stop = context.WithCancel(a.t.Context())
	sends, l.silence = context.WithCancel(ctx)
	for i := range publishers {
		p, err := newPublisher(a.rec, i+1, 0, nodes...)
		a.must(err)
		l.publishers = append(l.publishers, p)
		l.sending.Go(func() { p.steady(sends, float64(*rate)/publishers) })
	}
	for i, filters := range [][]string{{"**"}, {"shared/**", "app/p1/*"}} {
		l.reading.Go(func() {
			if err := read(ctx, a.rec, i+1, false, filters, nodes...); err != nil {
				l.readers.failed(err)
			}
		})
	}
	for range recoverers {
		rng := rand.New(rand.NewPCG(a.rng.Uint64(), 3))
		l.reading.Go(func() { l.recover(ctx, rng) })
	}
	a.t.Cleanup(func() { // after a failure; otherwise end has done it
		l.stop()
		for _, p := range l.publishers {
			p.client.Close()
		}
		l.sending.Wait()
		l.reading.Wait()
	})
	return l
}

// knows adds a node to those that recovering clients know.
func (l *load) knows(n *procs.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append(l.nodes, n)
}

func (l *load) known() []*procs.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.nodes)
}

// tip is the newest message that anybody was told of.
func (l *load) tip() (out uint64) {
	for _, p := range l.publishers {
		p.meter.mu.Lock()
		out = max(out, p.meter.tip)
		p.meter.mu.Unlock()
	}
	return out
}

// step does something to the cluster, waits for what comes of it, and notes what the
// clients saw.
func (l *load) step(what string, do func()) {
	l.t.Helper()
	s := step{what: what, begin: time.Now()}
	l.note("%s", what)
	do()
	time.Sleep(*calm)
	s.end, s.reading = time.Now(), l.readers.read()
	for _, p := range l.publishers {
		s.publishing.add(p.meter.read())
	}
	l.steps = append(l.steps, s)
}

// end ends the traffic, reads all from each node and judges everything.
func (l *load) end() {
	l.t.Helper()
	var all reading
	l.silence()
	l.sending.Wait()
	for _, p := range l.publishers {
		l.close(p)
		all.errs = append(all.errs, p.meter.read().errs...)
	}
	l.stop()
	l.reading.Wait()
	l.readAll()
	l.judge()
	l.report()
	for _, s := range l.steps {
		all.add(s.publishing)
		all.add(s.reading)
	}
	all.add(l.readers.read())
	for i, err := range all.errs {
		if i < 10 {
			l.t.Errorf("a client saw: %v", err)
		}
	}
	if all.acked == 0 || l.recoveries.Load() == 0 {
		l.t.Errorf("%d messages were acknowledged, %d recoveries made", all.acked, l.recoveries.Load())
	}
	if *gap > 0 && all.longest > *gap {
		l.t.Errorf("a publisher waited for %v, more than %v", all.longest, *gap)
	}
}

// report prints a line for each step.
func (l *load) report() {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\ts\tacked\tgap of a publisher\tof the stream\terrors\twaits told\t")
	for _, s := range l.steps {
		fmt.Fprintf(w, "%s\t%.1f\t%d\t%d ms\t%d ms\t%d\t%d\t\n", s.what, s.end.Sub(s.begin).Seconds(), s.publishing.acked,
			s.publishing.longest.Milliseconds(), l.between(s.begin, s.end).Milliseconds(),
			len(s.publishing.errs)+len(s.reading.errs), s.publishing.waits+s.reading.waits)
	}
	w.Flush()
	l.t.Logf("%d recoveries\n%s", l.recoveries.Load(), out.String())
}

// between is the longest time between two neighbours of the stream, of which one at
// least is from a stretch of time. The leaders' clock is this one.
func (l *load) between(begin, end time.Time) (longest time.Duration) {
	for _, r := range l.rec.History().Reads {
		if r.Reader != finals {
			continue
		}
		for i := 1; i < len(r.Messages); i++ {
			before, at := r.Messages[i-1].Time, r.Messages[i].Time
			if at >= begin.UnixNano() && before <= end.UnixNano() {
				longest = max(longest, time.Duration(at-before))
			}
		}
	}
	return longest
}

const (
	// recoverers are clients that recover something, again and again; their readers have
	// numbers from here on.
	recoverers = 4
	recovered  = 1000
	// fill is how much one of them takes at most.
	fill = 5_000
	// breath is their pause.
	breath = 200 * time.Millisecond
)

// interests are what recovering clients want.
var interests = [][]string{{"**"}, {"shared/**"}, {"app/p1/**"}, {"app/*/t3"}, {"app/p2/t7", "app/p3/*"}, {"app/p4/t1"}}

// recover recovers from random places of the stream, through random nodes, until ctx ends.
func (l *load) recover(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		nodes := l.known()
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		after := rng.Uint64N(l.tip() + 1)
		reader := recovered + int(l.recoveries.Add(1))
		err := l.session(ctx, reader, interests[rng.IntN(len(interests))], after, nodes)
		if err != nil {
			l.readers.failed(fmt.Errorf("reader %d: %w", reader, err))
		}
		select {
		case <-time.After(breath):
		case <-ctx.Done():
		}
	}
}

// session is one recovery: from behind a seq to the end, or until it has its fill.
func (l *load) session(ctx context.Context, reader int, filters []string, after uint64, nodes []*procs.Node) error {
	c, err := procs.Dial(nodes...)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: filters, From: client.AfterSeq(after), UntilTip: true, OnWait: l.readers.wait})
	if err != nil {
		return unlessOver(ctx, err)
	}
	defer s.Close()
	r := history.Read{Reader: reader, Filters: filters, After: after, To: after}
	for _, n := range nodes {
		r.Node += n.Name
	}
	defer func() { l.rec.Read(r) }()
	for len(r.Messages) < fill {
		d, err := s.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), err != nil && ctx.Err() != nil:
			r.To = max(r.To, s.Position().Seq)
			return nil
		case err != nil:
			return err
		}
		r.Messages = append(r.Messages, l.rec.seen(d))
		r.To = d.Seq
	}
	return nil
}

// unlessOver is an error of a client that was not told to end.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
