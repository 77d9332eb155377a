package fetching

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"chorale/segments"

	"github.com/hashicorp/raft"
)

const (
	// pauseMin to pauseMax is how long a node is not asked that failed, twice as long
	// each time.
	pauseMin, pauseMax = 250 * time.Millisecond, 5 * time.Second
	// doubtKept is how long it is asked for want of others only.
	doubtKept = time.Minute
	// slowerBy is how many times slower than another a node must be to be left for it, and
	// rateKept how long what was measured counts: then it gets another chance.
	slowerBy, rateKept = 4, 10 * time.Minute
	// slowBytes are the fewest that tell of a node how fast it is.
	slowBytes = 16 << 10
	// A copy that was bad is fetched once more at once; then after badMin to badMax, twice
	// as long each time.
	badMin, badMax = time.Minute, time.Hour
	// alone is how many suspicions outweigh a bad copy that came from one node alone.
	alone = 100
)

// peer is what is known of another node. Guarded by Fetcher.mu.
type peer struct {
	load     int // files that it gives now
	rate     float64
	measured time.Time
	pause    time.Duration // after the last failure; 0 if it worked since
	until    time.Time
	why      error
}

// verdict is what is known of the copies of a file that were bad, and by how much each
// node is to blame.
type verdict struct {
	copies int
	by     map[raft.ServerID]int
	next   time.Time // when it may be fetched again
	last   error
}

func (f *Fetcher) peer(id raft.ServerID) *peer {
	if f.peers[id] == nil {
		f.peers[id] = &peer{}
	}
	return f.peers[id]
}

// choose says who gives the next piece: of those who are least to blame for bad copies,
// who gave the last one, unless another is much faster; else who gives the fewest files
// now. It is "" if nobody may be asked; why is then what one of them said last.
func (f *Fetcher) choose(h segments.Hash, now raft.ServerID, tried map[raft.ServerID]bool) (id raft.ServerID, why error) {
	others := f.o.Peers.Others()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := time.Now()
	may, why := f.candidates(others, h, tried, at)
	if len(may) == 0 {
		f.move(now, "")
		return "", why
	}
	fastest := f.fastest(may, at)
	slow := func(id raft.ServerID) bool {
		s := f.peer(id).speed(at)
		return s > 0 && slowerBy*s < fastest
	}
	id = now
	// Of a file that was bad before it should be known whose bytes it has.
	if !slices.Contains(may, now) || slow(now) && f.bad[h] == nil {
		may = slices.DeleteFunc(may, slow)
		id = slices.MinFunc(may, func(a, b raft.ServerID) int { return f.peer(a).load - f.peer(b).load })
	}
	f.move(now, id)
	return id, nil
}

// nobody is why a file need not be begun, or gone on with: nobody may be asked for it. What
// is here already is another matter.
func (f *Fetcher) nobody(m segments.FileMeta) error {
	if begun, ok := f.o.Partial.Begun(m); ok && begun == m.Bytes {
		return nil
	}
	others := f.o.Peers.Others()
	f.mu.Lock()
	defer f.mu.Unlock()
	may, why := f.candidates(others, m.Hash, nil, time.Now())
	switch {
	case len(may) > 0:
		return nil
	case why != nil:
		return why
	}
	return errNobody
}

// slow reports whether a node that gives a file at some bytes a second should be left for
// another.
func (f *Fetcher) slow(h segments.Hash, now raft.ServerID, rate float64) bool {
	others := f.o.Peers.Others()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := time.Now()
	may, _ := f.candidates(others, h, map[raft.ServerID]bool{now: true}, at)
	return f.bad[h] == nil && slowerBy*rate < f.fastest(may, at)
}

// fastest is how many bytes a second the fastest of some nodes gives; 0 if that is not known.
func (f *Fetcher) fastest(of []raft.ServerID, at time.Time) (rate float64) {
	for _, id := range of {
		rate = max(rate, f.peer(id).speed(at))
	}
	return rate
}

// candidates are those of the others that may be asked, in their order. Callers ask
// Peers.Others before they take the lock: what is behind it may have locks of its own.
func (f *Fetcher) candidates(others []raft.ServerID, h segments.Hash, tried map[raft.ServerID]bool, at time.Time) (out []raft.ServerID, why error) {
	parts := make(map[raft.ServerID]int)
	if v := f.bad[h]; v != nil {
		parts = v.by
	}
	fewest := 0
	for _, id := range others {
		p := f.peer(id)
		switch {
		case tried[id]:
			continue
		case at.Before(p.until):
			why = p.why
			continue
		case len(out) == 0 || parts[id] < fewest:
			out, fewest = out[:0], parts[id]
		case parts[id] > fewest:
			continue
		}
		out = append(out, id)
	}
	if sound := slices.DeleteFunc(slices.Clone(out), func(id raft.ServerID) bool { return f.peer(id).doubtful(at) }); len(sound) > 0 {
		out = sound
	}
	return out, why
}

// doubtful reports whether a node failed when it was last asked, a short time ago: it is
// asked if nobody else can be. One that does not answer at all has no load and would be
// everybody's first choice, and each file would wait for it.
func (p *peer) doubtful(at time.Time) bool { return p.pause > 0 && at.Sub(p.until) < doubtKept }

// move notes who gives a file instead of whom.
func (f *Fetcher) move(from, to raft.ServerID) {
	if from != "" {
		f.peer(from).load--
	}
	if to != "" {
		f.peer(to).load++
	}
}

func (f *Fetcher) leave(from raft.ServerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.move(from, "")
}

// speed is bytes a second, 0 if that is not known.
func (p *peer) speed(now time.Time) float64 {
	if now.Sub(p.measured) > rateKept {
		return 0
	}
	return p.rate
}

// worked notes a piece that came. Small ones say nothing of how fast a node is.
func (f *Fetcher) worked(id raft.ServerID, bytes int64, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peer(id)
	p.pause = 0
	if bytes < slowBytes {
		return
	}
	now, rate := time.Now(), float64(bytes)/max(took, time.Microsecond).Seconds()
	if old := p.speed(now); old > 0 {
		rate = (3*old + rate) / 4
	}
	p.rate, p.measured = rate, now
}

// failed notes that a node did not give what it was asked for; one that does not have a
// file, or not all of it, is as good as before.
func (f *Fetcher) failed(id raft.ServerID, why error) {
	if errors.Is(why, segments.ErrNotHere) || errors.Is(why, segments.ErrCorrupt) {
		return
	}
	f.o.Log.Debug("a node did not give a file", "node", id, "error", why)
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peer(id)
	p.pause = min(max(2*p.pause, pauseMin), pauseMax)
	p.until, p.why = time.Now().Add(p.pause), why
}

// blame notes a copy that was bad, and returns what is to be said of it.
func (f *Fetcher) blame(m segments.FileMeta, gave map[raft.ServerID]bool, why error) error {
	var nodes []raft.ServerID
	for id := range gave {
		nodes = append(nodes, id)
	}
	slices.Sort(nodes)
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.bad[m.Hash]
	if v == nil {
		v = &verdict{by: make(map[raft.ServerID]int)}
		f.bad[m.Hash] = v
	}
	for _, id := range nodes {
		v.by[id]++
		if len(nodes) == 1 {
			v.by[id] += alone
		}
	}
	v.copies++
	v.last = fmt.Errorf("%d copies were bad, the last with bytes from %v: %w", v.copies, nodes, why)
	if v.copies > 1 {
		v.next = time.Now().Add(min(badMin<<min(v.copies-2, 10), badMax))
	}
	return v.last
}

// condemned is the error of a file that is not to be fetched again yet.
func (f *Fetcher) condemned(h segments.Hash) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.bad[h]
	if v == nil || !time.Now().Before(v.next) {
		return nil
	}
	return fmt.Errorf("%w; the next is fetched at %s", v.last, v.next.UTC().Format(time.RFC3339))
}

// Absolve forgets bad copies of a file that has come, from wherever, or is not wanted any more.
func (f *Fetcher) Absolve(h segments.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.bad, h)
}
