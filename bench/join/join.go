// Package join measures what it takes for an empty node to join a cluster that has much:
// how long, and how many bytes over the network, also if the node that joins and those
// that give are killed meanwhile.
package join

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/internal/procs"

	"golang.org/x/sync/errgroup"
)

// seen is the loopback address by which nodes see one another: behind it the proxies
// count. Linux has it by itself.
const seen = "127.0.0.2"

// Options of a run. Zero values mean the defaults, but for Rate.
type Options struct {
	Binary string // chorale itself
	Dir    string // for the data; what is made there is removed
	Bytes  int64  // of the files that the cluster has; default 64 MiB
	Nodes  int    // that have them; default 3
	// SegmentBytes is the size of a segment; default 16 MiB.
	SegmentBytes int64
	// Rate is what the node that joins may fetch a second; 0 is no limit.
	Rate int64
	// Kills is how often the node that joins is killed on its way, and one of the others as
	// well, at random moments.
	Kills int
	Seed  uint64
	// Patience bounds the whole run; default 30 minutes.
	Patience time.Duration
	Step     func(string) // is told what runs
}

func (o *Options) complete() {
	def := func(p *int64, n int64) {
		if *p == 0 {
			*p = n
		}
	}
	def(&o.Bytes, 64<<20)
	def(&o.SegmentBytes, 16<<20)
	def((*int64)(&o.Patience), int64(30*time.Minute))
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
}

const (
	messageBytes = 1 << 10
	topics       = 200
	pollEvery    = 20 * time.Millisecond
	// calm is how long no file may change before the cluster has come to rest, and
	// calmWait how long that is waited for.
	calm, calmWait = 6 * time.Second, 10 * time.Minute
)

// run is a run under way.
type run struct {
	Options
	rng     *rand.Rand
	cluster *procs.Cluster
	joiner  *procs.Node
	client  *client.Client
	api     []*proxy // of the nodes that give
	raft    *proxy   // of the node that joins
	report  *Report
}

// Run measures. Everything that it starts has ended when it returns.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o.complete()
	dir, err := os.MkdirTemp(o.Dir, "chorale-join-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	r := &run{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), report: &Report{Nodes: o.Nodes, Limit: o.Rate}}
	g, ctx := errgroup.WithContext(ctx)
	serving, done := context.WithCancel(ctx)
	defer done()
	if err := r.prepare(dir); err != nil {
		return nil, err
	}
	for _, p := range append(r.api, r.raft) {
		g.Go(func() error {
			if err := p.run(serving); serving.Err() == nil {
				return err
			}
			return nil
		})
	}
	g.Go(func() error {
		defer done()
		defer r.cluster.Stop()
		return r.measure(ctx)
	})
	if err := g.Wait(); err != nil {
		var logs strings.Builder
		r.cluster.PrintLogs(&logs)
		return nil, fmt.Errorf("%w\n%s", err, logs.String())
	}
	return r.report, nil
}

// prepare makes the nodes, and the proxies between them.
func (r *run) prepare(dir string) (err error) {
	log := min(max(r.Bytes/8, 1<<20), 256<<20)
	r.cluster, err = procs.New(r.Binary, dir, r.Nodes, "--segment-size", fmt.Sprint(r.SegmentBytes), "--snapshot-size", fmt.Sprint(log),
		"--fetch-rate", fmt.Sprint(r.Rate), "--advertise", seen, "--tip-size", "16MiB")
	if err != nil {
		return err
	}
	if r.joiner, err = r.cluster.Joiner("joiner"); err != nil {
		return err
	}
	everywhere := func(address string) string { return strings.Replace(address, "127.0.0.1:", "0.0.0.0:", 1) }
	for _, n := range r.cluster.Nodes {
		n.With("--gossip-addr", everywhere(n.Gossip), "--raft-addr", everywhere(n.Raft))
		p, err := listen(n.API)
		if err != nil {
			return fmt.Errorf("a port that counts: %w", err)
		}
		r.api = append(r.api, p)
	}
	r.joiner.With("--gossip-addr", everywhere(r.joiner.Gossip), "--api-addr", everywhere(r.joiner.API))
	if r.raft, err = listen(r.joiner.Raft); err != nil {
		return fmt.Errorf("a port that counts: %w", err)
	}
	return nil
}

func (r *run) measure(ctx context.Context) (err error) {
	r.Step(fmt.Sprintf("starting %d nodes", r.Nodes))
	if err := r.cluster.Start(ctx); err != nil {
		return err
	}
	if r.client, err = procs.Dial(r.cluster.Nodes...); err != nil {
		return err
	}
	defer r.client.Close()
	r.Step(fmt.Sprintf("publishing %d MiB", r.Bytes>>20))
	if err := r.fill(ctx); err != nil {
		return err
	}
	r.Step("waiting until nothing is built or compacted any more")
	if err := r.rest(ctx); err != nil {
		return err
	}
	r.Step("the empty node joins")
	defer func() {
		if r.joiner.Running() {
			err = errors.Join(err, r.joiner.Kill())
		}
	}()
	if err := r.join(ctx); err != nil {
		return err
	}
	return r.compare(ctx)
}

// fill publishes bytes that no compression makes fewer. It waits for each part: so the
// entries of the log are small beside the whole, and the log is cut; a node that joins is
// then sent a snapshot and fetches the files, as it does where there is much.
func (r *run) fill(ctx context.Context) error {
	p, err := r.client.Publisher(client.PublisherOptions{})
	if err != nil {
		return err
	}
	part := int(min(max(r.Bytes/600, 4<<10), 512<<10) / messageBytes)
	source := rand.NewChaCha8([32]byte{byte(r.Seed)})
	for n := 0; int64(n)*messageBytes < r.Bytes; n++ {
		payload := make([]byte, messageBytes)
		source.Read(payload)
		m := client.Message{Topic: fmt.Sprintf("bench/join/p%d/t%d", n%7, n%topics), Payload: payload}
		if err := p.PublishFunc(ctx, m, func(client.Ack, error) {}); err != nil {
			return err
		}
		if n%part == part-1 {
			if err := p.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return p.Close(ctx)
}

// rest waits until all nodes have the same files and these do not change any more.
func (r *run) rest(ctx context.Context) error {
	limit := time.Now().Add(calmWait)
	last, since := "", time.Now()
	for time.Since(since) < calm && time.Now().Before(limit) {
		now := ""
		for _, n := range r.cluster.Nodes {
			s, err := r.client.Status(ctx, n.API)
			if err != nil {
				return err
			}
			now += fmt.Sprintf("%d %d %d %d %d|", s.History.GetSegments(), s.History.GetStores(), s.History.GetBytes(), s.History.GetPlan(), s.History.GetMissingFiles())
			r.report.Bytes = int64(s.History.GetBytes())
		}
		if now != last {
			last, since = now, time.Now()
		}
		if err := procs.Pause(ctx, 10*pollEvery); err != nil {
			return err
		}
	}
	return nil
}

// received is what has come to the node that joins: files, and what Raft sent.
func (r *run) received() (files, raft int64) {
	for _, p := range r.api {
		files += p.out.Load()
	}
	return files, r.raft.in.Load()
}

// join starts the empty node and waits until it serves everything.
func (r *run) join(ctx context.Context) error {
	files, raft := r.received()
	begun := time.Now()
	if err := r.joiner.Start(); err != nil {
		return err
	}
	for _, at := range r.moments() {
		for now, _ := r.received(); now-files < at; now, _ = r.received() {
			if err := procs.Pause(ctx, pollEvery/4); err != nil {
				return fmt.Errorf("%d of %d bytes came: %w", now-files, r.report.Bytes, err)
			}
		}
		if err := r.kill(ctx); err != nil {
			return err
		}
	}
	if err := r.joiner.AwaitReady(ctx, 0); err != nil {
		return err
	}
	r.report.Took = time.Since(begun)
	filesNow, raftNow := r.received()
	r.report.Files, r.report.Raft = filesNow-files, raftNow-raft
	return nil
}

// moments are the amounts of bytes at which nodes are killed, ascending.
func (r *run) moments() (out []int64) {
	for range r.Kills {
		out = append(out, r.rng.Int64N(r.report.Bytes*9/10))
	}
	slices.Sort(out)
	return out
}

// kill kills the node that joins, and then one that gives, a moment apart, and starts
// both again.
func (r *run) kill(ctx context.Context) error {
	giver := r.cluster.Nodes[r.rng.IntN(r.Nodes)]
	for _, n := range []*procs.Node{r.joiner, giver} {
		r.Step(fmt.Sprintf("kill -9 of %s, %d MiB have come", n.Name, r.arrived()>>20))
		if err := n.Kill(); err != nil {
			return err
		}
		r.report.Kills++
		if err := errors.Join(procs.Pause(ctx, time.Duration(r.rng.Int64N(int64(500*time.Millisecond)))), n.Start()); err != nil {
			return err
		}
		if err := procs.Pause(ctx, time.Duration(r.rng.Int64N(int64(time.Second)))); err != nil {
			return err
		}
	}
	return giver.AwaitReady(ctx, 0)
}

func (r *run) arrived() int64 {
	files, _ := r.received()
	return files
}

// compare makes sure that the new node has the same files, to the byte.
func (r *run) compare(ctx context.Context) error {
	r.Step("comparing all files")
	c, err := procs.Dial(r.joiner)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		mine, err := r.joiner.Files()
		if err != nil {
			return err
		}
		others, err := r.cluster.Nodes[0].Files()
		if err != nil {
			return err
		}
		s, err := c.Status(ctx, r.joiner.API)
		if err == nil && slices.Equal(mine, others) && s.History.GetMissingFiles() == 0 && s.History.GetBytes() > 0 {
			return r.verify(s, mine)
		}
		if p := procs.Pause(ctx, 10*pollEvery); p != nil {
			return errors.Join(fmt.Errorf("%d files here, %d there, %d missing: %w", len(mine), len(others), s.GetHistory().GetMissingFiles(), p), err)
		}
	}
}

// verify reads all files of the new node and holds them against their names, and looks
// for what a fetch may have left.
func (r *run) verify(s *api.GetStatusResponse, files []string) error {
	var bytes int64
	for _, name := range files {
		f, err := os.Open(filepath.Join(r.joiner.Dir, "segments", name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if bytes += n; !strings.Contains(name, hex.EncodeToString(sum.Sum(nil))[:16]) {
			return fmt.Errorf("%s is not the file that its name says", name)
		}
	}
	left, err := os.ReadDir(filepath.Join(r.joiner.Dir, "partial"))
	if err != nil || len(left) > 0 || bytes != int64(s.History.GetBytes()) {
		return errors.Join(err, fmt.Errorf("%d bytes of files, want %d; unfinished copies: %v", bytes, s.History.GetBytes(), left))
	}
	log, err := r.joiner.Log()
	r.report.Bytes, r.report.Count, r.report.Resumed = bytes, len(files), strings.Count(string(log), "going on with a file")
	return err
}
