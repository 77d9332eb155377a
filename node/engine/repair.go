package engine

import (
	"context"
	"fmt"
	"io"
	"time"

	"chorale/segments"

	"golang.org/x/sync/errgroup"
)

const (
	repairPauseMin = 100 * time.Millisecond
	repairPauseMax = 5 * time.Second
)

// repair fetches files that the manifest names and this node lacks, oldest first,
// one at a time, until ctx ends. It leaves alone what this node is building itself.
func (e *Engine) repair(ctx context.Context) error {
	wait := repairPauseMin
	for ctx.Err() == nil {
		changed := e.history.Changed()
		_, builds := e.compaction.Newest()
		var failed error
		for _, meta := range e.history.Missing() {
			if e.compaction.Makes(meta) {
				continue
			}
			if err := e.fetch(ctx, meta); err != nil {
				failed = err
				continue
			}
			wait = repairPauseMin
			e.log.Info("fetched a missing file", "first", meta.First, "last", meta.Last, "bytes", meta.Bytes)
		}
		var again <-chan time.Time
		if failed != nil && ctx.Err() == nil {
			e.log.Warn("a missing file could not be fetched", "error", failed, "again in", wait)
			again = time.After(wait)
			wait = min(2*wait, repairPauseMax)
			changed, builds = nil, nil // a change must not shorten the pause
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-builds:
		case <-again:
		}
	}
	return nil
}

// fetch copies one file from a peer into the history, which checks it.
func (e *Engine) fetch(ctx context.Context, meta segments.FileMeta) error {
	r, w := io.Pipe()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := e.seams.Peers.FetchFile(ctx, meta.Hash, 0, w)
		w.CloseWithError(err) // nil means the end of the file
		return err
	})
	g.Go(func() error {
		err := e.history.Import(meta, r)
		r.CloseWithError(err)
		return err
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("messages %d to %d: %w", meta.First, meta.Last, err)
	}
	return nil
}
