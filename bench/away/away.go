// Package away measures how a node catches up that was away for longer than the others
// keep their log, while messages are published at a steady rate.
package away

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"chorale/client"
	"chorale/internal/procs"

	"golang.org/x/sync/errgroup"
)

// Options of a run.
type Options struct {
	Binary string // chorale itself
	Dir    string // for the data; what is made there is removed
	// Rate is how many messages of Payload bytes are published a second, all the time.
	Rate, Payload int
	// For is how long the node is away.
	For time.Duration
	// SegmentBytes is the size of a segment, LogBytes the log that a node keeps at most: it is
	// to be less than what is published meanwhile.
	SegmentBytes, LogBytes int64
	// Kills is how often the node is killed again on its way.
	Kills int
	Seed  uint64
	// Patience bounds the whole run.
	Patience time.Duration
	Step     func(string) // is told what runs
}

const (
	nodes     = 3
	topics    = 200
	pollEvery = 10 * time.Millisecond
	// before is how long the load runs before the node goes.
	before = 3 * time.Second
	// near is how far behind the leader a node may be that has caught up: what is published
	// in this time, for both are asked one after the other.
	near = 100 * time.Millisecond
)

// run is a run under way.
type run struct {
	Options
	rng           *rand.Rand
	cluster       *procs.Cluster
	client        *client.Client // knows all nodes
	leader, gone  *procs.Node
	load          *load
	stopPublisher context.CancelFunc
	report        *Report
}

// Run measures. Everything that it starts has ended when it returns.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	dir, err := os.MkdirTemp(o.Dir, "chorale-away-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	r := &run{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), report: &Report{Published: o.Rate, Payload: o.Payload, Away: o.For}}
	r.cluster, err = procs.New(o.Binary, dir, nodes, "--segment-size", fmt.Sprint(o.SegmentBytes), "--snapshot-size", fmt.Sprint(o.LogBytes))
	if err != nil {
		return nil, err
	}
	defer r.cluster.Stop()
	if err := r.measure(ctx); err != nil {
		var logs strings.Builder
		r.cluster.PrintLogs(&logs)
		return nil, fmt.Errorf("%w\n%s", err, logs.String())
	}
	return r.report, nil
}

func (r *run) measure(ctx context.Context) (err error) {
	r.Step("starting three nodes")
	if err := r.cluster.Start(ctx); err != nil {
		return err
	}
	if r.leader, err = r.cluster.Leader(ctx); err != nil {
		return err
	}
	r.gone = r.cluster.Nodes[slices.IndexFunc(r.cluster.Nodes, func(n *procs.Node) bool { return n != r.leader })]
	others := slices.DeleteFunc(slices.Clone(r.cluster.Nodes), func(n *procs.Node) bool { return n == r.gone })
	publisher, err := procs.Dial(others...)
	if err != nil {
		return err
	}
	defer publisher.Close()
	if r.client, err = procs.Dial(r.cluster.Nodes...); err != nil {
		return err
	}
	defer r.client.Close()
	g, ctx := errgroup.WithContext(ctx)
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	r.load = &load{rate: r.Rate, payload: make([]byte, r.Payload)}
	r.stopPublisher = stop
	g.Go(func() error { return r.load.run(publishing, publisher) })
	g.Go(func() error {
		defer stop()
		return r.goAndReturn(ctx)
	})
	return g.Wait()
}

// goAndReturn kills the node, waits, starts it, and follows it until it has caught up.
func (r *run) goAndReturn(ctx context.Context) error {
	r.Step(fmt.Sprintf("publishing %d messages/s; then kill -9 of %s", r.Rate, r.gone.Name))
	if err := procs.Pause(ctx, before); err != nil {
		return err
	}
	had, err := r.last(ctx, r.gone)
	if err != nil {
		return err
	}
	if err := r.gone.Kill(); err != nil {
		return err
	}
	r.load.mark()
	r.Step(fmt.Sprintf("it is away for %v", r.For))
	if err := procs.Pause(ctx, r.For); err != nil {
		return err
	}
	r.report.GapAway = r.load.mark()
	head, err := r.last(ctx, r.leader)
	if err != nil {
		return err
	}
	r.report.Missed = int(head - had)
	r.Step(fmt.Sprintf("it returns and has missed %d messages", r.report.Missed))
	begun := time.Now()
	now, err := r.catchUp(ctx, had, head)
	if err != nil {
		return err
	}
	r.report.Took, r.report.Caught = time.Since(begun), int(now-had)
	r.report.GapBack = r.load.mark()
	return r.compare(ctx)
}

// catchUp starts the node, kills and starts it again where that is asked for, and returns
// its last seq when it serves everything and is near the leader.
func (r *run) catchUp(ctx context.Context, had, head uint64) (now uint64, err error) {
	if err := r.gone.Start(); err != nil {
		return 0, err
	}
	for ; r.report.Kills < r.Kills; r.report.Kills++ {
		// The way takes about a tenth of the time that the node was away.
		if err := procs.Pause(ctx, time.Duration(r.rng.Int64N(int64(r.For/20)+1))); err != nil {
			return 0, err
		}
		r.Step("kill -9 of it on its way")
		if err := errors.Join(r.gone.Kill(), r.gone.Start()); err != nil {
			return 0, err
		}
	}
	for {
		s, err := r.client.Status(ctx, r.gone.API)
		if err == nil && s.NotReady == "" && s.History.GetMissingFiles() == 0 && s.LastSeq >= head {
			head, err := r.last(ctx, r.leader)
			if err != nil {
				return 0, err
			}
			if s.LastSeq+uint64(near.Seconds()*float64(r.Rate)) >= head {
				return s.LastSeq, nil
			}
		}
		if err := procs.Pause(ctx, pollEvery); err != nil {
			return 0, fmt.Errorf("the node was at %d of %d, %d files missing, %s: %w",
				s.GetLastSeq(), head, s.GetHistory().GetMissingFiles(), s.GetNotReady(), err)
		}
	}
}

func (r *run) last(ctx context.Context, n *procs.Node) (uint64, error) {
	s, err := r.client.Status(ctx, n.API)
	if err != nil {
		return 0, fmt.Errorf("asking node %s: %w", n.Name, err)
	}
	return s.LastSeq, nil
}

// compare ends the load and waits until all nodes have the same files and messages.
func (r *run) compare(ctx context.Context) error {
	r.Step("comparing all files")
	r.stopPublisher()
	log, err := r.gone.Log()
	if err != nil {
		return err
	}
	r.report.Snapshots = strings.Count(string(log), "Installed remote snapshot")
	for {
		alike, err := r.alike(ctx)
		if err == nil && alike {
			return nil
		}
		if p := procs.Pause(ctx, 10*pollEvery); p != nil {
			return errors.Join(fmt.Errorf("the nodes do not become alike: %w", p), err)
		}
	}
}

func (r *run) alike(ctx context.Context) (bool, error) {
	var states []string
	for _, n := range r.cluster.Nodes {
		last, err := r.last(ctx, n)
		if err != nil {
			return false, err
		}
		files, err := n.Files()
		if err != nil {
			return false, err
		}
		states = append(states, fmt.Sprint(last, files))
		r.report.Files = len(files)
	}
	return len(slices.Compact(states)) == 1 && r.report.Files > 0, nil
}
