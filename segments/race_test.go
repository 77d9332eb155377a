package segments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/topic"
)

// TestEverythingAtOnce: one goroutine applies, one builds, one compacts, one repairs,
// a disk rots, the oldest files expire, and readers compare all they get with the
// model. For the race detector above all.
func TestEverythingAtOnce(t *testing.T) {
	const messages, entry = 6000, 20
	m := disk.NewMem(1)
	s := newStream(t, m.Mount())
	s.log.o.Warn = func(error) {}
	s.log.SetTarget(8000)
	s.draft(messages)
	ctx, stop := context.WithCancel(context.Background())
	var copies sync.Map // by Hash
	var helpers, readers sync.WaitGroup
	helpers.Go(func() {
		if err := s.log.Build(ctx); err != nil {
			t.Error(err)
		}
	})
	helpers.Go(func() { repairUntil(ctx, t, s.log, &copies) })
	plans := make(chan plan)
	helpers.Go(func() { s.compactUntil(ctx, t, m, &copies, plans) })
	for i, list := range []string{"**", "p1/**", "p2/x/t0", "**"} {
		f := filters(t, list)
		readers.Go(func() { s.follow(t, f, messages, rand.New(rand.NewPCG(5, uint64(i)))) })
	}
	rng := rand.New(rand.NewPCG(6, 6))
	for at := 0; at < messages; at += entry {
		for _, r := range s.all[at : at+entry] {
			s.log.Append(s.table.Partition(r.Topic()), r)
		}
		s.log.Publish()
		check(t, s.log.CutIfFull())
		for _, f := range s.log.Proposals() {
			b, err := m.ReadFile("data/" + f.Name())
			check(t, err)
			copies.Store(f.Hash, b)
			refused, mismatch := s.log.Install(Edit{Add: []FileMeta{f}})
			check(t, errors.Join(refused, mismatch))
			if rng.IntN(3) == 0 {
				_ = m.FlipBit("data/"+f.Name(), rng.Int64N(8*f.Bytes)) // it may be aside by now
			}
		}
		select {
		case p := <-plans:
			_, mismatch := s.log.Install(p.edit) // refused if its oldest range has expired
			check(t, mismatch)
			close(p.installed)
		default:
		}
		if ranges := s.log.Manifest().Ranges(); len(ranges) > 20 {
			var e Edit
			for _, f := range ranges[0].Files {
				e.Remove = append(e.Remove, f.Hash)
			}
			refused, mismatch := s.log.Install(e)
			check(t, errors.Join(refused, mismatch))
		}
	}
	check(t, s.log.Cut()) // its file is news for who came too early for the last entry
	readers.Wait()
	stop()
	helpers.Wait()
}

// plan is an edit for the applying goroutine.
type plan struct {
	edit      Edit
	installed chan struct{}
}

// compactUntil makes layers of neighbouring ranges until ctx ends.
func (s *stream) compactUntil(ctx context.Context, t *testing.T, m *disk.Mem, copies *sync.Map, plans chan<- plan) {
	rng := rand.New(rand.NewPCG(8, 8))
	for ctx.Err() == nil {
		changed := s.log.Changed()
		ranges := s.log.Manifest().Ranges()
		var e Edit
		err := ErrNotHere
		if len(ranges) > 4 {
			from := rng.IntN(len(ranges) - 3)
			e, err = s.buildLayer(s.log, ranges[from:from+3], 4, func(id uint32) int { return int(id) % 4 })
		}
		switch {
		case errors.Is(err, ErrNotHere), errors.Is(err, ErrCorrupt), errors.Is(err, ErrExpired):
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		case err != nil:
			t.Error(err)
			return
		}
		for _, f := range e.Add {
			b, err := m.ReadFile("data/" + f.Name())
			if err != nil {
				t.Error(err)
			}
			copies.Store(f.Hash, b)
			if rng.IntN(6) == 0 {
				_ = m.FlipBit("data/"+f.Name(), rng.Int64N(8*f.Bytes))
			}
		}
		p := plan{e, make(chan struct{})}
		select {
		case plans <- p:
			<-p.installed
		case <-ctx.Done():
		}
		if err := s.log.Tidy(0, 0); err != nil {
			t.Error(err)
		}
	}
}

// draft fills the model alone.
func (s *stream) draft(n int) {
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range uint64(n) {
		id, _ := s.table.Intern(fmt.Appendf(nil, "p%d/x/t%d", rng.IntN(5), rng.IntN(3)))
		s.all = append(s.all, message.NewRecord(message.Draft{Payload: make([]byte, rng.IntN(100))}, id, i+1, s.last[id], int64(i/20)))
		s.last[id] = i + 1
	}
}

// repairUntil fetches what is missing until ctx ends.
func repairUntil(ctx context.Context, t *testing.T, l *Log, copies *sync.Map) {
	for {
		changed := l.Changed()
		for _, m := range l.Missing() {
			b, _ := copies.Load(m.Hash)
			if err := importFile(l, m, b.([]byte)); err != nil && l.Oldest() <= m.First {
				t.Error(err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// follow reads to the end as a cursor would, and compares.
func (s *stream) follow(t *testing.T, f *topic.Filters, end uint64, rng *rand.Rand) {
	sel := topic.NewSelection(s.table, f)
	at := uint64(0)
	r := s.log.NewReader(sel, at)
	for at < end {
		changed := s.log.Changed()
		b, p, err := r.Read(nil, 1+rng.IntN(20_000))
		for _, want := range s.all[at:p.Scanned] {
			if !f.Match(s.table.Name(want.Topic())) {
				continue
			}
			got, rest, splitErr := message.Split(b)
			if splitErr != nil || !bytes.Equal(got, want) {
				t.Errorf("behind %d: want seq %d, have %v", at, want.Seq(), got)
				return
			}
			b = rest
		}
		moved := p.Scanned > at
		at = p.Scanned
		switch {
		case errors.Is(err, ErrExpired):
			r.Close()
			at = s.log.Oldest() - 1
			r = s.log.NewReader(sel, at)
		case err != nil && !errors.Is(err, ErrNotHere) && !errors.Is(err, ErrCorrupt):
			t.Error(err)
			return
		case !moved:
			<-changed
		}
	}
	r.Close()
}
