package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chorale/disk"
	"chorale/node/engine"
	"chorale/node/engine/roster"
	"chorale/raftfsm"
	"chorale/segments"

	"github.com/hashicorp/raft"
)

// leading answers batches as a node that leads.
type leading struct {
	mu  sync.Mutex
	got []string
}

func (l *leading) SubmitLocal(_ context.Context, batch []byte, done func([]raftfsm.Outcome, error)) {
	l.mu.Lock()
	l.got = append(l.got, string(batch))
	l.mu.Unlock()
	done([]raftfsm.Outcome{{Seq: uint64(len(batch))}}, nil)
}

// Health implements Server.
func (l *leading) Health() roster.Health { return roster.Health{} }

func (l *leading) OpenFile(segments.Hash) (disk.File, segments.FileMeta, error) {
	return nil, segments.FileMeta{}, errors.New("no such file")
}

func (l *leading) Salvage(segments.Hash) (disk.File, segments.FileMeta, error) {
	return nil, segments.FileMeta{}, errors.New("no such file")
}

// arrived is what has come so far.
func (l *leading) arrived() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

// answers collects what done is told, by batch.
type answers struct {
	mu  sync.Mutex
	err map[string][]error
}

func (a *answers) submit(e *Endpoint, to int, batch string) {
	e.Submit(context.Background(), raft.ServerID(Address(to)), []byte(batch), func(_ []raftfsm.Outcome, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.err[batch] = append(a.err[batch], err)
	})
}

func (a *answers) of(t *testing.T, batch string) error {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.err[batch]) != 1 {
		t.Fatalf("%s was answered %d times", batch, len(a.err[batch]))
	}
	return a.err[batch][0]
}

// TestSubmit: batches arrive in order; a batch is answered once, whatever is lost,
// and never as unavailable when it may have arrived.
func TestSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(2, 1)
		a, b := w.Attach(0), w.Attach(1)
		l := &leading{}
		b.Serve(l)
		got := answers{err: map[string][]error{}}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprintf("batch %d", i))
			got.submit(a, 1, want[i])
		}
		time.Sleep(time.Second)
		if !slices.Equal(l.arrived(), want) {
			t.Errorf("arrived %q", l.arrived())
		}
		for _, batch := range want {
			if err := got.of(t, batch); err != nil {
				t.Errorf("%s: %v", batch, err)
			}
		}

		w.Cut(1, 0) // the answer is lost
		got.submit(a, 1, "without answer")
		time.Sleep(2 * submitTimeout)
		if err := got.of(t, "without answer"); !errors.Is(err, engine.ErrUnknown) || !slices.Contains(l.arrived(), "without answer") {
			t.Errorf("a lost answer: %v, arrived %q", err, l.arrived())
		}
		w.Heal()
		w.Cut(0, 1)
		got.submit(a, 1, "lost")
		time.Sleep(2 * submitTimeout)
		if err := got.of(t, "lost"); !errors.Is(err, engine.ErrUnknown) || slices.Contains(l.arrived(), "lost") {
			t.Errorf("a lost batch: %v, arrived %q", err, l.arrived())
		}
		a.Close()
		got.submit(a, 1, "from the dead")
		time.Sleep(2 * submitTimeout)
		if err := got.of(t, "from the dead"); err == nil {
			t.Error("a closed endpoint still submits")
		}
		b.Close()
	})
}

// follower answers AppendEntries.
func follower(e *Endpoint, served *[]uint64) {
	for {
		select {
		case r := <-e.Consumer():
			args := r.Command.(*raft.AppendEntriesRequest)
			*served = append(*served, args.PrevLogEntry)
			r.Respond(&raft.AppendEntriesResponse{Term: args.Term, Success: true}, nil)
		case <-e.closed:
			return
		}
	}
}

// TestPipeline: requests are served in order, the first loss breaks the pipeline,
// and neither side waits for ever when the other is gone.
func TestPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(2, 1)
		a, b := w.Attach(0), w.Attach(1)
		var served []uint64
		go follower(b, &served)
		p, err := a.AppendEntriesPipeline("n2", Address(1))
		if err != nil {
			t.Fatal(err)
		}
		send := func(i uint64) {
			if _, err := p.AppendEntries(&raft.AppendEntriesRequest{Term: 1, PrevLogEntry: i}, new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
		}
		for i := uint64(1); i <= 3; i++ {
			send(i)
			if f := <-p.Consumer(); f.Error() != nil || !f.Response().Success || f.Request().PrevLogEntry != i {
				t.Errorf("request %d: %v %+v", i, f.Error(), f.Response())
			}
		}
		w.Cut(0, 1)
		for i := uint64(4); i <= 4+depth; i++ { // nobody reads answers, nobody blocks
			send(i)
		}
		time.Sleep(10 * timeout)
		w.Heal()
		for range depth + 1 {
			if f := <-p.Consumer(); f.Error() == nil {
				t.Errorf("request %d behind a loss got through", f.Request().PrevLogEntry)
			}
		}
		if !slices.Equal(served, []uint64{1, 2, 3}) {
			t.Errorf("served %d", served)
		}
		p.Close()
		if _, err := p.AppendEntries(&raft.AppendEntriesRequest{}, nil); err == nil {
			t.Error("a closed pipeline takes requests")
		}
		a.Close()
		b.Close()
		time.Sleep(10 * timeout)
	})
}

// TestNodesShareNoMemory: what the receiver does to an entry, the sender does not
// see.
func TestNodesShareNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(2, 1)
		a, b := w.Attach(0), w.Attach(1)
		go func() {
			r := <-b.Consumer()
			clear(r.Command.(*raft.AppendEntriesRequest).Entries[0].Data)
			r.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		}()
		data := []byte("mine")
		var resp raft.AppendEntriesResponse
		err := a.AppendEntries("n2", Address(1), &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{{Data: data}}}, &resp)
		if err != nil || !resp.Success || string(data) != "mine" {
			t.Errorf("%v, %+v, %q", err, resp, data)
		}
		a.Close()
		b.Close()
	})
}
