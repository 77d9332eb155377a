// Package fetching brings data files from other nodes: from several at once, piece by
// piece, at a bounded rate. What has come stays over restarts (package partial), and
// whoever has the file goes on with it, since a file is known by its hash.
package fetching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"chorale/segments"
	"chorale/segments/partial"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// pieceMax and pieceMin bound what is asked for at once: what a kill can lose on its
	// way, and when another node may be chosen.
	pieceMin, pieceMax = 64 << 10, 1 << 20
	// stallWait is how long a node may give nothing of a piece before another is asked.
	stallWait = 10 * time.Second
	// slowWait is how long a piece may take before it is looked how fast it comes.
	slowWait = 2 * time.Second
)

var (
	// ErrUnwanted is returned for a file that is not wanted any more.
	ErrUnwanted = errors.New("the file is not wanted any more")

	errNobody  = errors.New("no other node is known")
	errSlow    = errors.New("another node is faster")
	errStalled = fmt.Errorf("it gave nothing for %v", stallWait)
)

// Peers reaches other nodes. Safe for concurrent use.
type Peers interface {
	// Others are the nodes that may hold files, the likeliest first.
	Others() []raft.ServerID
	// Fetch writes length bytes of a data file from offset on, or more, as another node
	// gives them; fewer are an error. It wraps segments.ErrNotHere where that node does
	// not hold the file, segments.ErrCorrupt where its copy is cut or cannot be read.
	Fetch(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error
	// Salvage does the same with what another node has of a file, sound or not: fewer
	// bytes mean that its copy ends there.
	Salvage(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, w io.Writer) error
}

// Options of a Fetcher.
type Options struct {
	Peers   Peers
	Partial *partial.Store
	// Import takes in a file that has come; see segments.Log.
	Import func(*partial.File) error
	// Rate is how many bytes a second may come at most; 0 is no limit.
	Rate int64
	Log  hclog.Logger
}

// Fetcher brings files. Its methods are for any goroutine.
type Fetcher struct {
	o     Options
	limit *limit

	mu     sync.Mutex
	peers  map[raft.ServerID]*peer
	bad    map[segments.Hash]*verdict
	counts Counts
	meter  meter
}

// Counts are of what came since the start.
type Counts struct {
	Active   int   // files that are coming now
	Files    int64 // that came
	Received int64 // bytes
	Dropped  int64 // bytes of these, and of earlier lives, that were thrown away
	// Rate is bytes a second, lately; Limit what is allowed, 0 for no limit.
	Rate  float64
	Limit int64
}

// New makes a Fetcher.
func New(o Options) *Fetcher {
	return &Fetcher{
		o: o, limit: &limit{rate: o.Rate}, peers: make(map[raft.ServerID]*peer), bad: make(map[segments.Hash]*verdict),
		counts: Counts{Limit: o.Rate},
	}
}

// Partial is where the files are that are on their way.
func (f *Fetcher) Partial() *partial.Store { return f.o.Partial }

// Counts is what came so far.
func (f *Fetcher) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.Rate = f.meter.rate(time.Now())
	return c
}

func (f *Fetcher) count(how func(c *Counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(&f.counts)
}

// received counts bytes that came.
func (f *Fetcher) received(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Received += bytes
	f.meter.add(time.Now(), bytes)
}

// Discard throws a partial file away that nobody is writing.
func (f *Fetcher) Discard(name string) error {
	bytes, err := f.o.Partial.Remove(name)
	f.count(func(c *Counts) { c.Dropped += bytes })
	return err
}

// Bring fetches what is still missing of a file and imports it. It ends with an error when
// no node that may be asked gives more; what has come is kept for the next call. A copy
// that turns out bad is thrown away: it costs one more, and further ones only after a
// while. wanted is asked between the pieces.
func (f *Fetcher) Bring(ctx context.Context, m segments.FileMeta, wanted func() bool) error {
	if err := f.condemned(m.Hash); err != nil {
		return err
	}
	if err := f.nobody(m); err != nil {
		return err
	}
	p, err := f.o.Partial.Resume(m)
	if err != nil {
		return err
	}
	f.count(func(c *Counts) {
		c.Active++
		c.Dropped += p.Dropped()
	})
	defer f.count(func(c *Counts) { c.Active-- })
	if p.Resumed() > 0 {
		f.o.Log.Info("going on with a file that broke off", "file", m.Name(), "at", p.Resumed(), "of", m.Bytes)
	}
	r := &run{Fetcher: f, p: p, gave: make(map[raft.ServerID]bool), tried: make(map[raft.ServerID]bool)}
	err = r.fetch(ctx, wanted)
	f.leave(r.from)
	switch {
	case errors.Is(err, ErrUnwanted):
		f.count(func(c *Counts) { c.Dropped += p.Offset() })
		f.Absolve(m.Hash)
		return errors.Join(err, p.Drop())
	case err != nil && p.Offset() == 0:
		return errors.Join(err, p.Drop())
	case err != nil:
		return errors.Join(err, p.Keep())
	}
	err = f.o.Import(p)
	switch {
	case err == nil:
		f.count(func(c *Counts) { c.Files++ })
		f.Absolve(m.Hash)
	case errors.Is(err, segments.ErrBadCopy):
		f.count(func(c *Counts) { c.Dropped += m.Bytes })
		err = f.blame(m, r.gave, err)
	}
	return err
}

// run is one file on its way.
type run struct {
	*Fetcher
	p    *partial.File
	from raft.ServerID // who gives now
	// gave are those of whom bytes came, tried those who failed.
	gave, tried map[raft.ServerID]bool
}

// fetch asks for one piece after the other, each of the node that seems best.
func (r *run) fetch(ctx context.Context, wanted func() bool) error {
	last := errNobody
	for r.p.Offset() < r.p.Meta.Bytes {
		if !wanted() {
			return ErrUnwanted
		}
		var why error
		if r.from, why = r.choose(r.p.Meta.Hash, r.from, r.tried); r.from == "" {
			if why != nil && len(r.tried) == 0 {
				last = why
			}
			return last
		}
		got, mine, err := r.piece(ctx, r.from)
		if got > 0 {
			r.gave[r.from] = true
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case mine != nil:
			return mine
		case err != nil:
			last = fmt.Errorf("node %s: %w", r.from, err)
			r.tried[r.from] = true
			r.failed(r.from, last)
		}
	}
	return nil
}

// piece asks a node for the next bytes. mine is an error of this node's disk.
func (r *run) piece(ctx context.Context, from raft.ServerID) (got int64, mine, err error) {
	want := min(r.limit.piece(), r.p.Meta.Bytes-r.p.Offset())
	if err := r.limit.wait(ctx, want); err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sink{run: r, ctx: ctx, want: want, begun: time.Now(), stall: time.AfterFunc(stallWait, func() { cancel(errStalled) })}
	defer s.stall.Stop()
	err = r.o.Peers.Fetch(ctx, from, r.p.Meta.Hash, r.p.Offset(), want, s)
	r.limit.refund(max(want-s.got, 0))
	switch {
	case errors.Is(context.Cause(ctx), errStalled):
		err = errStalled
	case err == nil && s.got < want:
		err = fmt.Errorf("%w: %w", segments.ErrCorrupt, io.ErrUnexpectedEOF)
	case err == nil, errors.Is(err, errSlow):
		r.worked(from, s.got, time.Since(s.begun))
		err = nil
	}
	return s.got, s.mine, err
}

// sink writes what comes to the partial file, and counts it.
type sink struct {
	*run
	ctx       context.Context // of the piece
	begun     time.Time
	stall     *time.Timer
	want, got int64
	mine      error // of this node's disk
}

// Write implements io.Writer.
func (s *sink) Write(b []byte) (int, error) {
	s.got += int64(len(b))
	if over := min(s.got-s.want, int64(len(b))); over > 0 {
		s.stall.Stop()
		// It came already: if ctx ends meanwhile, it is written all the same.
		_ = s.limit.wait(s.ctx, over)
	}
	s.stall.Reset(stallWait)
	s.received(int64(len(b)))
	n, err := s.p.Write(b)
	if err != nil && !errors.Is(err, partial.ErrBad) { // else the giver gave too much
		s.mine = err
	}
	if took := time.Since(s.begun); err == nil && took > slowWait && s.slow(s.p.Meta.Hash, s.from, float64(s.got)/took.Seconds()) {
		err = errSlow
	}
	return n, err
}
