package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chorale/disk"
	"chorale/message"
	"chorale/node/engine/building"
	"chorale/segments"
	"chorale/segments/format"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node's files, a layer of two stores and four segments, and a peer that has
// copies of them.
type world struct {
	t      *testing.T
	fsys   *disk.Mem
	topics *topic.Table
	log    *segments.Log
	tip    *tip.Tip
	files  []segments.FileMeta
	copies map[segments.Hash][]byte
	all    []message.Record

	mu     sync.Mutex
	torn   map[segments.Hash][]byte // what the peer has instead of its copy
	nobody error                    // what the peer says instead of giving files
	asked  int
	// salvaged is how many bytes of torn were asked for.
	salvaged int64
	rate     int64 // of fetching; 0 is no limit
}

const (
	entries = 20 // of a segment
	period  = 24 * time.Hour
)

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, fsys: disk.NewMem(1), topics: topic.NewTable(),
		copies: make(map[segments.Hash][]byte), torn: make(map[segments.Hash][]byte),
	}
	w.open()
	last := make(map[uint32]uint64)
	for i := range 6 * entries {
		id, _ := w.topics.Intern(fmt.Appendf(nil, "a/b/t%d", i%5))
		r := message.NewRecord(message.Draft{Payload: bytes.Repeat([]byte{byte(i)}, 1000)}, id, uint64(i+1), last[id], int64(i))
		last[id] = r.Seq()
		w.all = append(w.all, r)
		w.log.Append(w.topics.Partition(id), r)
		w.tip.Append(w.topics.Partition(id), r)
		w.log.Publish()
		w.tip.Publish()
		if i%entries == entries-1 {
			w.must(w.log.Cut())
			w.build()
			w.install(segments.Edit{Add: w.log.Proposals()})
		}
	}
	w.layer(w.log.Manifest().Files[:2])
	w.build() // removes what the layer replaced
	w.files = w.log.Manifest().Files
	for _, m := range w.files {
		b, err := w.fsys.ReadFile("segments/" + m.Name())
		w.must(err)
		w.copies[m.Hash] = b
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// open starts the node on its files, with nothing in the tip.
func (w *world) open() {
	var err error
	w.log, err = segments.Open(segments.Options{FS: w.fsys.Mount(), Dir: "segments", Topics: w.topics, PendingStretches: 2})
	w.must(err)
	w.tip = tip.New(1 << 20)
	if w.files != nil {
		w.must(w.log.Restore(segments.Manifest{Files: w.files}, uint64(len(w.all)+1)))
		w.tip.Reset(uint64(len(w.all) + 1))
	}
}

func (w *world) build() {
	for more := true; more; {
		var err error
		more, err = w.log.BuildOne()
		w.must(err)
	}
}

func (w *world) install(e segments.Edit) {
	refused, mismatch := w.log.Install(e)
	w.must(errors.Join(refused, mismatch))
}

// layer makes two stores of some files.
func (w *world) layer(of []segments.FileMeta) {
	first, last := of[0], of[len(of)-1]
	b, err := w.log.NewStoreBuilder(first.First, last.Last, first.FirstTime, last.LastTime, 1, format.ChapterBytes, 2, func(id uint32) int { return int(id % 2) })
	w.must(err)
	defer b.Abort()
	for _, r := range w.all[first.First-1 : last.Last] {
		w.must(b.Add(r))
	}
	e := segments.Edit{Plan: 1}
	for _, m := range of {
		e.Remove = append(e.Remove, m.Hash)
	}
	e.Add, err = b.Finish(nil)
	w.must(err)
	w.install(e)
}

func (w *world) keeper(every time.Duration, rate int64) *Keeper {
	caughtUp := make(chan struct{})
	close(caughtUp)
	k, err := New(Options{
		History: w.log, Tip: w.tip, Topics: w.topics, Building: building.New(), Files: w.fsys.Mount(), Dir: "segments",
		Log: hclog.NewNullLogger(), Every: every, Rate: rate, CaughtUp: caughtUp,
		Peers: w, FetchRate: w.rate,
		Current: func() bool { return true },
	})
	w.must(err)
	return k
}

// Others implements fetching.Peers.
func (w *world) Others() []raft.ServerID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nobody != nil {
		return nil
	}
	return []raft.ServerID{"peer"}
}

// Fetch implements fetching.Peers.
func (w *world) Fetch(_ context.Context, _ raft.ServerID, h segments.Hash, offset, length int64, to io.Writer) error {
	w.mu.Lock()
	w.asked++
	refused, torn := w.nobody, w.torn[h]
	w.mu.Unlock()
	if refused != nil {
		return refused
	}
	if torn != nil {
		return segments.ErrNotHere
	}
	_, err := to.Write(w.copies[h][offset:][:length])
	return err
}

// Salvage implements fetching.Peers.
func (w *world) Salvage(_ context.Context, _ raft.ServerID, h segments.Hash, offset, length int64, to io.Writer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.torn[h]
	if b == nil {
		return segments.ErrNotHere
	}
	w.salvaged += length
	_, err := to.Write(b[min(offset, int64(len(b))):min(offset+length, int64(len(b)))])
	return err
}

// refuse makes the peer say no, or yes again.
func (w *world) refuse(with error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nobody = with
}

// run runs the keeper's actors and returns what ends them.
func run(k *Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var actors sync.WaitGroup
	for _, actor := range []func(context.Context) error{k.Repair, k.Scrub} {
		actors.Go(func() { _ = actor(ctx) })
	}
	return func() {
		cancel()
		actors.Wait()
	}
}

// whole checks that every file is as it was, and that all messages are read.
func (w *world) whole() {
	w.t.Helper()
	for _, m := range w.files {
		b, err := w.fsys.ReadFile("segments/" + m.Name())
		if err != nil || !bytes.Equal(b, w.copies[m.Hash]) {
			w.t.Fatalf("%s is not as it was: %d bytes, %v", m.Name(), len(b), err)
		}
	}
	list, err := w.fsys.List("segments")
	w.must(err)
	if len(list) != len(w.files) {
		w.t.Fatalf("%d files are there, want %d: %v", len(list), len(w.files), list)
	}
	r, err := w.log.NewRangeReader(1, uint64(len(w.all)))
	w.must(err)
	defer r.Close()
	for at := uint64(0); at < uint64(len(w.all)); {
		b, p, err := r.Read(nil, 1<<20)
		w.must(err)
		for ; len(b) > 0; at++ {
			var rec message.Record
			rec, b, err = message.Split(b)
			w.must(err)
			if !bytes.Equal(rec, w.all[at]) {
				w.t.Fatalf("message %d is another", at+1)
			}
		}
		if p.Scanned != at {
			w.t.Fatalf("scanned %d, read %d", p.Scanned, at)
		}
	}
}

// inBubble runs f under virtual time.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// damages are what happens to a file behind the node's back.
var damages = map[string]func(w *world, m segments.FileMeta, path string) error{
	"flipped": func(w *world, m segments.FileMeta, path string) error { return w.fsys.FlipBit(path, m.Bytes*4) },
	"cut":     func(w *world, m segments.FileMeta, path string) error { return w.fsys.Truncate(path, m.Bytes-7) },
	"removed": func(w *world, _ segments.FileMeta, path string) error { return w.fsys.Lose(path) },
}

// TestScrubRepairs: whatever happens to a file that nobody reads, within the time it is
// found and brought back, from the peer.
func TestScrubRepairs(t *testing.T) {
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				k := w.keeper(period, 0)
				stop := run(k)
				defer stop()
				time.Sleep(time.Hour)
				for i, m := range w.files {
					w.must(damage(w, m, "segments/"+m.Name()))
					time.Sleep(period)
					w.whole()
					if s := k.Scrubbed(); s.Bad != int64(i+1) || s.LastBad.File != m.Name() || s.Unread != 0 || time.Since(s.Oldest) > period {
						t.Fatalf("%+v", s)
					}
				}
				if k.Lacking() != "" {
					t.Error(k.Lacking())
				}
			})
		})
	}
}

// TestEveryFileInTime: at any time each file was read within the last period, by the floor
// of the rate and by one that is only just enough.
func TestEveryFileInTime(t *testing.T) {
	for _, rate := range []int64{0, 1} {
		inBubble(t, func(t *testing.T, w *world) {
			every := period
			if rate == 1 { // a byte a second
				every = time.Duration(2*total(w.log.Files())+4096) * time.Second
			}
			k := w.keeper(every, rate)
			stop := run(k)
			defer stop()
			time.Sleep(every)
			for range 50 {
				time.Sleep(every / 10)
				if s := k.Scrubbed(); time.Since(s.Oldest) > every || s.Unread != 0 || s.Files != len(w.files) {
					t.Fatalf("%+v at %v", s, time.Now())
				}
			}
			if s := k.Scrubbed(); rate == 0 && s.Sound > int64(7*len(w.files)) {
				t.Errorf("%d files were read in 6 periods, there are %d", s.Sound, len(w.files))
			}
		})
	}
}

// TestScrubResumes: a node that starts again goes on where it was, and one that lost the
// notes reads everything.
func TestScrubResumes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		rate := total(w.log.Files()) / 60 // a minute for all
		k := w.keeper(period, rate)
		stop := run(k)
		time.Sleep(30 * time.Second)
		stop()
		done := k.Scrubbed().Sound
		if done == 0 || done >= int64(len(w.files)) {
			t.Fatalf("%d files in half the time", done)
		}
		w.open()
		k = w.keeper(period, rate)
		stop = run(k)
		time.Sleep(time.Hour)
		stop()
		if got := k.Scrubbed(); got.Sound != int64(len(w.files))-done || got.Unread != 0 {
			t.Fatalf("%d were read, and then %+v", done, got)
		}
		w.must(w.fsys.PutFile(stateFile, []byte("{")))
		w.open()
		k = w.keeper(period, rate)
		stop = run(k)
		time.Sleep(time.Hour)
		stop()
		if got := k.Scrubbed(); got.Sound != int64(len(w.files)) {
			t.Fatalf("without notes: %+v", got)
		}
	})
}

// TestScrubPassesMemory: a file that the manifest names and that this node has in memory
// alone, because it builds slowly, is not asked for again and again: time would stand
// still here.
func TestScrubPassesMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := func(seed uint64) *world {
			x := &world{t: t, fsys: disk.NewMem(seed), topics: w.topics}
			x.open()
			for _, r := range w.all[:entries] {
				x.log.Append(w.topics.Partition(r.Topic()), r)
				x.log.Publish()
			}
			x.must(x.log.Cut())
			return x
		}
		fast, slow := one(2), one(3)
		fast.build()
		slow.install(segments.Edit{Add: fast.log.Proposals()})
		k := slow.keeper(period, 0)
		stop := run(k)
		defer stop()
		time.Sleep(period)
		if s := k.Scrubbed(); s.Files != 1 || s.Sound != 0 {
			t.Fatalf("%+v", s)
		}
		slow.build()
		time.Sleep(period)
		if s := k.Scrubbed(); s.Sound != 1 || s.Bad != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestScrubOff: nothing is read.
func TestScrubOff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k := w.keeper(0, 0)
		stop := run(k)
		defer stop()
		time.Sleep(10 * period)
		if s := k.Scrubbed(); s.Bytes != 0 || s.Every != 0 || s.Due != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRebuiltFromMemory: what no peer gives comes from the tip.
func TestRebuiltFromMemory(t *testing.T) {
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.refuse(errors.New("no other node is known"))
				stop := run(w.keeper(period, 0))
				defer stop()
				for _, m := range w.files {
					w.must(damage(w, m, "segments/"+m.Name()))
					time.Sleep(period)
					w.whole()
				}
			})
		})
	}
}

// TestNobodyHasIt: a file that is nowhere any more is named, to operators and to readers
// who want it, with the time and the reason; until somebody brings it back.
func TestNobodyHasIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.open() // with an empty tip
		w.refuse(errors.New("no other node is known"))
		k := w.keeper(period, 0)
		stop := run(k)
		defer stop()
		time.Sleep(time.Hour)
		bad := w.files[3]
		w.must(w.fsys.FlipBit("segments/"+bad.Name(), 8000))
		time.Sleep(period)
		since := k.Scrubbed().LastBad.Time.UTC().Format(time.RFC3339)
		says := func(got string, parts ...string) {
			t.Helper()
			for _, p := range parts {
				if !strings.Contains(got, p) {
					t.Errorf("%q does not say %q", got, p)
				}
			}
		}
		says(k.Lacking(), bad.Name(), "is missing since "+since, fmt.Sprintf("messages %d to %d", bad.First, bad.Last), "no other node is known")

		r, err := w.log.NewRangeReader(bad.First, bad.Last)
		w.must(err)
		_, _, err = r.Read(nil, 1<<20)
		r.Close()
		if !errors.Is(err, segments.ErrNotHere) {
			t.Fatal(err)
		}
		says(k.Explain(err).Error(), bad.Name(), fmt.Sprint("position ", bad.First), "missing since "+since, "no other node is known")
		if other := errors.New("other"); k.Explain(other) != other {
			t.Error("another error was changed")
		}

		w.must(w.fsys.Lose("segments/" + w.files[0].Name()))
		time.Sleep(period)
		says(k.Lacking(), fmt.Sprintf("2 of %d files are missing", len(w.files)), w.files[0].Name())

		w.must(w.fsys.PutFile("segments/"+bad.Name(), w.copies[bad.Hash]))
		time.Sleep(time.Minute)
		says(k.Lacking(), "the file "+w.files[0].Name())
		w.refuse(nil)
		time.Sleep(time.Minute)
		w.whole()
		if k.Lacking() != "" || k.Explain(err) != err {
			t.Errorf("%q, %v", k.Lacking(), k.Explain(err))
		}
	})
}

// TestChecks: pages follow one another without gap or repeat, and a deep one finds what
// is bad and has it repaired.
func TestChecks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k := w.keeper(0, 0)
		stop := run(k)
		defer stop()
		for i := range w.files {
			var seq uint64
			var hash []byte
			if i > 0 {
				seq, hash = w.files[i-1].First, w.files[i-1].Hash[:]
			}
			page, more, err := k.Checks(t.Context(), seq, hash, false)
			if err != nil || more || len(page) != len(w.files)-i || page[0].FileMeta != w.files[i] || !page[0].Here {
				t.Fatalf("behind file %d: %d files, more %v, %v", i, len(page), more, err)
			}
		}
		gone := segments.Hash{1}
		if page, _, err := k.Checks(t.Context(), w.files[2].First, gone[:], false); err != nil || len(page) != len(w.files)-3 {
			t.Errorf("behind a file that was replaced: %d files, %v", len(page), err)
		}
		bad := w.files[1]
		w.must(w.fsys.FlipBit("segments/"+bad.Name(), bad.Bytes*4))
		page, _, err := k.Checks(t.Context(), 0, nil, true)
		w.must(err)
		for _, c := range page {
			if (c.Bad != nil) != (c.FileMeta == bad) || c.Bad == nil && c.ReadAt.IsZero() {
				t.Errorf("%s: %v, read at %v", c.Name(), c.Bad, c.ReadAt)
			}
		}
		time.Sleep(time.Minute)
		w.whole()
	})
}

// TestChecksLook: a file that was deleted or cut behind the node's back is found without
// reading the others, and repaired.
func TestChecksLook(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k := w.keeper(0, 0)
		stop := run(k)
		defer stop()
		bad := map[segments.FileMeta]bool{w.files[1]: true, w.files[3]: true}
		w.must(w.fsys.Remove("segments/" + w.files[1].Name()))
		w.must(w.fsys.Truncate("segments/"+w.files[3].Name(), w.files[3].Bytes/2))
		page, _, err := k.Checks(t.Context(), 0, nil, false)
		w.must(err)
		for _, c := range page {
			if (c.Bad != nil) != bad[c.FileMeta] || !c.ReadAt.IsZero() {
				t.Errorf("%s: %v, read at %v", c.Name(), c.Bad, c.ReadAt)
			}
		}
		time.Sleep(time.Minute)
		w.whole()
	})
}
