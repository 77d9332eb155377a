package fetching

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorale/disk"
	"chorale/segments"
	"chorale/segments/partial"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// node is another node, and what it does to who asks it.
type node struct {
	has    func(h segments.Hash) bool
	breaks func() bool           // before a message
	spoils func() bool           // a message
	delay  time.Duration         // of a message
	stalls bool                  // gives nothing
	more   bool                  // gives all that follows, as an early version does
	asked  map[segments.Hash]int // pieces
	torn   []byte                // what it has of any file, if that is not sound
	short  bool                  // its copies are cut in the middle
}

// net is some files, some nodes that give them, and a node that wants them.
type net struct {
	t     *testing.T
	fsys  *disk.Mem
	files []segments.FileMeta
	bytes map[segments.Hash][]byte
	order []raft.ServerID
	rate  int64
	retry time.Duration
	now   atomic.Pointer[Fetcher] // of this life

	mu    sync.Mutex
	nodes map[raft.ServerID]*node
	sent  map[segments.Hash]int64 // bytes that reached the node that wants them
	bad   map[segments.Hash]int   // copies
	busy  int
	most  int
}

const message = 16 << 10 // of a node's answer

func newNet(t *testing.T, seed uint64, sizes ...int) *net {
	w := &net{t: t, fsys: disk.NewMem(seed), bytes: make(map[segments.Hash][]byte), nodes: make(map[raft.ServerID]*node),
		sent: make(map[segments.Hash]int64), bad: make(map[segments.Hash]int), rate: 1 << 20, retry: 100 * time.Millisecond}
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	for i, n := range sizes {
		b := make([]byte, n)
		rng.Read(b)
		m := segments.FileMeta{Kind: segments.KindSegment, First: uint64(i*10 + 1), Last: uint64(i*10 + 10), Bytes: int64(n), Hash: sha256.Sum256(b)}
		w.files, w.bytes[m.Hash] = append(w.files, m), b
	}
	w.must(w.fsys.MkdirAll("done"))
	return w
}

func (w *net) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add adds a node that has everything and gives it.
func (w *net) add(id raft.ServerID) *node {
	never := func() bool { return false }
	n := &node{has: func(segments.Hash) bool { return true }, breaks: never, spoils: never, asked: make(map[segments.Hash]int)}
	w.order, w.nodes[id] = append(w.order, id), n
	return n
}

// Others implements Peers. It waits for the fetcher's lock, as the locks behind a real
// directory may: a fetcher that holds it meanwhile hangs each test here.
func (w *net) Others() []raft.ServerID {
	w.now.Load().Counts()
	return w.order
}

// Fetch implements Peers.
func (w *net) Fetch(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, to io.Writer) error {
	w.mu.Lock()
	n := w.nodes[from]
	n.asked[h]++
	w.busy++
	w.most = max(w.most, w.busy)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy--
	}()
	if n.stalls {
		<-ctx.Done()
		return ctx.Err()
	}
	if !n.has(h) {
		return segments.ErrNotHere
	}
	all := w.bytes[h]
	end := min(offset+length, int64(len(all)))
	if n.more {
		end = int64(len(all))
	}
	if n.short {
		end = min(end, int64(len(all)/2))
	}
	for at := offset; at < end; at += message {
		select {
		case <-time.After(n.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
		w.mu.Lock()
		breaks, spoils := n.breaks(), n.spoils()
		w.mu.Unlock()
		if breaks {
			return errors.New("broken off")
		}
		b := bytes.Clone(all[at:min(at+message, end)])
		if spoils {
			b[0] ^= 1
		}
		w.mu.Lock()
		w.sent[h] += int64(len(b))
		w.mu.Unlock()
		if _, err := to.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Salvage implements Peers.
func (w *net) Salvage(ctx context.Context, from raft.ServerID, h segments.Hash, offset, length int64, to io.Writer) error {
	w.mu.Lock()
	n := w.nodes[from]
	n.asked[h]++
	breaks := n.breaks()
	w.mu.Unlock()
	switch {
	case n.stalls:
		<-ctx.Done()
		return ctx.Err()
	case breaks:
		return errors.New("broken off")
	case n.torn == nil:
		return segments.ErrNotHere
	}
	_, err := to.Write(n.torn[min(offset, int64(len(n.torn))):min(offset+length, int64(len(n.torn)))])
	return err
}

// fetcher begins a life of the node that wants files.
func (w *net) fetcher() *Fetcher {
	fsys := w.fsys.Mount()
	parts, err := partial.Open(fsys, "partial")
	w.must(err)
	f := New(Options{Peers: w, Partial: parts, Rate: w.rate, Log: hclog.NewNullLogger(), Import: func(p *partial.File) error {
		err := p.Finish()
		if errors.Is(err, segments.ErrBadCopy) {
			w.mu.Lock()
			w.bad[p.Meta.Hash]++
			w.mu.Unlock()
		}
		if err != nil {
			return err
		}
		return p.MoveTo("done/" + p.Meta.Name())
	}})
	w.now.Store(f)
	return f
}

func (w *net) done(m segments.FileMeta) bool {
	b, err := w.fsys.ReadFile("done/" + m.Name())
	if err == nil && !bytes.Equal(b, w.bytes[m.Hash]) {
		w.t.Fatalf("%s is another file", m.Name())
	}
	return err == nil
}

// life fetches files until all are there or ctx ends, some at a time, and returns how
// many are still missing.
func (w *net) life(ctx context.Context, f *Fetcher) (missing int) {
	var workers sync.WaitGroup
	slots := make(chan bool, 4)
	for _, m := range w.files {
		if w.done(m) {
			continue
		}
		missing++
		workers.Go(func() {
			slots <- true
			defer func() { <-slots }()
			for ctx.Err() == nil && f.Bring(ctx, m, func() bool { return true }) != nil {
				time.Sleep(w.retry)
			}
		})
	}
	workers.Wait()
	return missing
}

// TestParallel: some files at a time, of all nodes that have them, and each byte once.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 900_000, 900_000, 900_000, 900_000, 1, 0, 900_000, 900_000)
		w.rate = 0
		for _, id := range []raft.ServerID{"a", "b", "c"} {
			w.add(id).delay = time.Millisecond
		}
		f := w.fetcher()
		w.life(t.Context(), f)
		var sum int64
		for _, m := range w.files {
			if sum += m.Bytes; !w.done(m) || w.sent[m.Hash] != m.Bytes {
				t.Errorf("%s: %d bytes came", m.Name(), w.sent[m.Hash])
			}
		}
		for id, n := range w.nodes {
			if len(n.asked) == 0 {
				t.Errorf("%s gave nothing", id)
			}
		}
		if c := f.Counts(); w.most != 4 || c.Received != sum || c.Dropped != 0 || c.Files != 8 || c.Active != 0 || c.Rate == 0 {
			t.Errorf("%d at a time, %+v", w.most, c)
		}
	})
}

// TestRate: all files together come no faster than they may, and about as fast.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 1<<20, 1<<20, 1<<20, 1<<20, 1<<20, 1<<20)
		w.add("a").more = true
		w.add("b")
		begun := time.Now()
		w.life(t.Context(), w.fetcher())
		if took := time.Since(begun); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("6 MiB at 1 MiB/s took %v", took)
		}
	})
}

// TestLeftForAnother: a node that is slow, fails, stalls or has nothing is left for one
// that gives, and the file goes on where it was.
func TestLeftForAnother(t *testing.T) {
	for what, poor := range map[string]func(n *node){
		"slow":    func(n *node) { n.delay = time.Second },
		"fails":   func(n *node) { count := 0; n.breaks = func() bool { count++; return count > 9 } },
		"stalls":  func(n *node) { n.stalls = true },
		"nothing": func(n *node) { n.has = func(segments.Hash) bool { return false } },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newNet(t, 1, 5_000_000, 5_000_000, 5_000_000)
				w.rate = 64 << 20
				poor(w.add("poor"))
				w.add("good").delay = time.Millisecond
				begun := time.Now()
				w.life(t.Context(), w.fetcher())
				if took := time.Since(begun); took > 90*time.Second {
					t.Errorf("it took %v", took)
				}
				for _, m := range w.files {
					if w.sent[m.Hash] != m.Bytes {
						t.Errorf("%s: %d bytes came", m.Name(), w.sent[m.Hash])
					}
				}
			})
		})
	}
}

// TestOneIsDown: a node that does not answer holds up few files, not one after the other.
func TestOneIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := make([]int, 100)
		for i := range sizes {
			sizes[i] = 1 << 20
		}
		w := newNet(t, 1, sizes...)
		w.rate = 4 << 20
		w.add("a").delay = time.Millisecond
		w.add("down").stalls = true
		begun := time.Now()
		w.life(t.Context(), w.fetcher())
		asked := 0
		for _, n := range w.nodes["down"].asked {
			asked += n
		}
		if took := time.Since(begun); took > 40*time.Second || asked > 6 {
			t.Errorf("it was asked %d times, and all took %v instead of 25 s", asked, took)
		}
	})
}

// TestInterrupted: whatever breaks, and however often the node is killed: each byte comes
// once, and every file in the end.
func TestInterrupted(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			w := newNet(t, seed, rng.IntN(300_000), rng.IntN(300_000), rng.IntN(300_000), rng.IntN(300_000), rng.IntN(300_000))
			for _, id := range []raft.ServerID{"a", "b", "c"}[:1+rng.IntN(3)] {
				n, breaks, has := w.add(id), rng.IntN(40), rng.IntN(4)
				n.breaks = func() bool { return rng.IntN(100) < breaks }
				n.has = func(h segments.Hash) bool { return id == "a" || int(h[0])%4 >= has }
				n.delay, n.more = time.Duration(rng.IntN(50))*time.Millisecond, rng.IntN(4) == 0
			}
			lives := 0
			for left := 1; left > 0; lives++ {
				if lives > 2000 {
					t.Fatalf("seed %d: it does not end", seed)
				}
				ctx, kill := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(1500))*time.Millisecond)
				left = w.life(ctx, w.fetcher())
				kill()
			}
			for _, m := range w.files {
				if !w.done(m) || w.sent[m.Hash] != m.Bytes || w.bad[m.Hash] > 0 {
					t.Fatalf("seed %d: %s of %d bytes: %d came in %d lives", seed, m.Name(), m.Bytes, w.sent[m.Hash], lives)
				}
			}
		})
	}
}

// TestBadPeers: nodes that give other bytes than they should cost copies, a few of them,
// as long as one is sound.
func TestBadPeers(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			w := newNet(t, seed, rng.IntN(300_000), rng.IntN(300_000), rng.IntN(300_000))
			bad := 1 + rng.IntN(2)
			for i, id := range []raft.ServerID{"a", "b", "c"} {
				n, spoils := w.add(id), 20+rng.IntN(80)
				if n.delay = time.Duration(rng.IntN(20)) * time.Millisecond; i < bad {
					n.spoils = func() bool { return rng.IntN(100) < spoils }
				}
			}
			f := w.fetcher()
			w.life(t.Context(), f)
			var sum, sent int64
			for _, m := range w.files {
				sum += m.Bytes
				sent += w.sent[m.Hash]
				if !w.done(m) || w.bad[m.Hash] > bad+1 || w.sent[m.Hash] != int64(1+w.bad[m.Hash])*m.Bytes {
					t.Fatalf("seed %d: %s of %d bytes: %d came, %d copies were bad", seed, m.Name(), m.Bytes, w.sent[m.Hash], w.bad[m.Hash])
				}
			}
			if c := f.Counts(); c.Received != sent || c.Dropped != sent-sum {
				t.Errorf("seed %d: %d bytes came for %d: %+v", seed, sent, sum, c)
			}
		})
	}
}

// TestAllBad: a file of which no node has a sound copy is fetched a few times a day, not
// all the time, and the reason is told.
func TestAllBad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 200_000)
		w.retry = 10 * time.Second
		for _, id := range []raft.ServerID{"a", "b"} {
			w.add(id).spoils = func() bool { return true }
		}
		f := w.fetcher()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		w.life(ctx, f)
		if n := w.bad[w.files[0].Hash]; n < 20 || n > 35 {
			t.Errorf("%d copies in a day", n)
		}
		err := f.Bring(t.Context(), w.files[0], func() bool { return true })
		if !errors.Is(err, segments.ErrBadCopy) || !strings.Contains(err.Error(), "the next is fetched at 2000-01-0") {
			t.Error(err)
		}
	})
}

// TestTornByPower: bytes that a loss of power has torn cost one more copy of that file.
func TestTornByPower(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newNet(t, seed, 500_000, 500_000)
			w.add("a")
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			w.life(ctx, w.fetcher())
			w.fsys.Crash()
			w.life(t.Context(), w.fetcher())
			for _, m := range w.files {
				if !w.done(m) || w.bad[m.Hash] > 1 || w.sent[m.Hash] > 2*m.Bytes+1<<19 {
					t.Errorf("seed %d: %d bytes came, %d copies were bad", seed, w.sent[m.Hash], w.bad[m.Hash])
				}
			}
		})
	}
}

// TestUnwantedMidway: a file that an edit removes while it comes is let go.
func TestUnwantedMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 3_000_000)
		w.add("a")
		f := w.fetcher()
		begun := time.Now()
		err := f.Bring(t.Context(), w.files[0], func() bool { return time.Since(begun) < time.Second })
		if n, _ := f.Partial().Stats(); !errors.Is(err, ErrUnwanted) || n != 0 {
			t.Errorf("%v, %d unfinished copies", err, n)
		}
		if c := f.Counts(); c.Dropped != c.Received || c.Received == 0 || c.Received > 2<<20 {
			t.Errorf("%+v", c)
		}
	})
}

// TestOwnDisk: an error of this node's disk is not held against the other node.
func TestOwnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 300_000)
		w.add("a")
		f := w.fetcher()
		w.must(w.fsys.Fault("on write *.part limit 100000 fail ENOSPC"))
		if err := f.Bring(t.Context(), w.files[0], func() bool { return true }); err == nil || strings.Contains(err.Error(), "node a") {
			t.Errorf("%v", err)
		}
		w.fsys.ClearFaults()
		if err := f.Bring(t.Context(), w.files[0], func() bool { return true }); err != nil || !w.done(w.files[0]) {
			t.Error(err)
		}
		if sent := w.sent[w.files[0].Hash]; sent > 300_000+message {
			t.Errorf("%d bytes came", sent)
		}
	})
}

// TestNobody: without others, and with others that do not answer, the reason is told.
func TestNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet(t, 1, 300_000)
		f := w.fetcher()
		says := func(want string) {
			t.Helper()
			if err := f.Bring(t.Context(), w.files[0], func() bool { return true }); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		says("no other node is known")
		w.add("a").breaks = func() bool { return true }
		says("node a: broken off")
		says("node a: broken off") // it is not asked again at once
		if n := w.nodes["a"].asked[w.files[0].Hash]; n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
}
