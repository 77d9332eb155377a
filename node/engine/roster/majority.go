package roster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"chorale/segments"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
)

const (
	// A voter that has nothing yet is asked again after firstAsk, then after twice as
	// long each time, lookEvery at most.
	firstAsk = 10 * time.Millisecond
	// pollWait is how long the same voters are asked: they may have become others.
	pollWait = 2 * time.Second
)

// Has is how many of the first of these segments the node has built, and made durable.
func (h Health) Has(files []segments.FileMeta) int {
	for i, f := range files {
		if !slices.Contains(h.Built, f.Hash) {
			return i
		}
	}
	return len(files)
}

// Made is 1 if the node has built the plan with this result, -1 if it could not, or
// built something else, and 0 as long as it is not done.
func (h Health) Made(plan uint64, sum segments.Hash) int {
	switch {
	case h.Plan != plan:
		return 0
	case h.PlanSum != sum:
		return -1
	}
	return 1
}

// WithMajority asks the voters how much they have of something, again and again, until a
// majority has some of it, and then calls then with how much each of that majority has at
// least; or with less than 0 if a majority never will, since too many have said so. The
// members do not change meanwhile. A node of a version that does not tell has what this one
// has. The error is that of then, or of ctx.
//
// It is what an edit waits for: what the manifest names lies on the disks of a majority
// from the beginning, as all that is committed does.
func (r *Roster) WithMajority(ctx context.Context, has func(Health) int, then func(n int) error) error {
	for ctx.Err() == nil {
		asked := r.voters()
		n := r.poll(ctx, asked, has)
		if n == 0 {
			continue
		}
		release, err := r.hold(ctx)
		if err != nil {
			return err
		}
		if slices.Equal(asked, r.voters()) {
			err = then(n)
			release()
			return err
		}
		release()
	}
	return ctx.Err()
}

// voter is a voter of Raft's configuration. One that does not mean to stay counts, as one
// that has nothing: it may go at once, or vote once more.
type voter struct {
	id    raft.ServerID
	stays bool
}

func (r *Roster) voters() (out []voter) {
	v := r.view()
	for _, s := range v.servers {
		if s.Suffrage == raft.Voter {
			out = append(out, voter{s.ID, v.stays(s)})
		}
	}
	return out
}

// poll asks these voters for a while.
func (r *Roster) poll(ctx context.Context, voters []voter, has func(Health) int) int {
	ctx, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	t := tally{answers: make(map[raft.ServerID]int)}
	for _, v := range voters {
		t.answers[v.id] = 0
	}
	var g errgroup.Group
	for _, v := range voters {
		if !v.stays {
			continue
		}
		g.Go(func() error {
			for wait := firstAsk; ctx.Err() == nil; wait = min(2*wait, lookEvery) {
				n := r.ask(ctx, v.id, has)
				if t.put(v.id, n) {
					cancel()
				}
				if n != 0 {
					return nil
				}
				select {
				case <-time.After(wait):
				case <-ctx.Done():
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	n := t.count()
	if n == 0 {
		<-ctx.Done() // all have answered, and it is not enough
	}
	return n
}

// ask is how much one voter has; 0 also if it does not answer.
func (r *Roster) ask(ctx context.Context, id raft.ServerID, has func(Health) int) int {
	h, err := r.healthOf(ctx, id)
	switch {
	case errors.Is(err, ErrOld):
		return has(r.Health())
	case err != nil:
		return 0
	}
	list, _ := r.Members()
	if m, _ := list.Find(string(id)); m.Incarnation != 0 && m.Incarnation != h.Incarnation {
		return 0 // another life under this id: no voter
	}
	return has(h)
}

// tally is what voters have answered. Safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	answers map[raft.ServerID]int // 0 is none yet
}

// put takes an answer, and reports whether the result is sure.
func (t *tally) put(id raft.ServerID, n int) (sure bool) {
	t.mu.Lock()
	t.answers[id] = n
	t.mu.Unlock()
	return t.count() != 0
}

// count is what a majority has, negative if none can.
func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return verdict(slices.Sorted(maps.Values(t.answers)))
}

// verdict is what a majority has at least, of ascending answers.
func verdict(answers []int) int {
	majority := len(answers)/2 + 1
	denied, _ := slices.BinarySearch(answers, 0)
	switch {
	case len(answers) == 0:
		return 0
	case len(answers)-denied < majority:
		return -1
	}
	return max(answers[len(answers)-majority], 0)
}
