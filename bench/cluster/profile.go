package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"chorale/internal/procs"

	"golang.org/x/sync/errgroup"
)

// profiled runs a load, with CPU profiles of every node and of this process, which
// makes the load, below o.Profile if that is set. They cover o.Load from the start.
func (o Options) profiled(ctx context.Context, c *procs.Cluster, name string, load func() error) error {
	if o.Profile == "" {
		return load()
	}
	name = strings.NewReplacer(" ", "-", ",", "").Replace(name)
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	own, err := os.Create(filepath.Join(o.Profile, name+".load.pprof"))
	if err != nil {
		return err
	}
	defer own.Close()
	if err := pprof.StartCPUProfile(own); err != nil {
		return err
	}
	var g errgroup.Group
	for _, n := range c.Nodes {
		role := "follower"
		if n == leader {
			role = "leader"
		}
		file := filepath.Join(o.Profile, fmt.Sprintf("%s.%s-%s.pprof", name, n.Name, role))
		g.Go(func() error { return profileNode(ctx, n, o.Load, file) })
	}
	g.Go(func() error {
		defer pprof.StopCPUProfile()
		return load()
	})
	return g.Wait()
}

func profileNode(ctx context.Context, n *procs.Node, d time.Duration, file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", n.HTTP, int(max(d.Seconds(), 1)))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("profile of %s: %s", n.Name, answer.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, answer.Body); err != nil {
		return err
	}
	return f.Close()
}
