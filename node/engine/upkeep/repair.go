package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"chorale/segments"
	"chorale/topic"

	"golang.org/x/sync/errgroup"
)

const (
	repairPauseMin = 100 * time.Millisecond
	repairPauseMax = 5 * time.Second
	// localEvery is how often a file that no other node gives is looked for on this
	// one: somebody may have put it back.
	localEvery = 30 * time.Second
)

// Repair brings back files that the manifest names and this node lacks, oldest first,
// one at a time, until ctx ends. It leaves alone what this node is building itself.
func (k *Keeper) Repair(ctx context.Context) error {
	wait := repairPauseMin
	looked := make(map[segments.Hash]time.Time) // for missing files, on this node
	for ctx.Err() == nil {
		k.Lacking()
		changed := k.o.History.Changed()
		_, builds := k.o.Building.Newest()
		var failed error
		for _, meta := range k.o.History.Missing() {
			if k.o.Building.Makes(meta) {
				continue
			}
			if err := k.bring(ctx, meta, looked); err != nil {
				failed = err
				k.failed(meta, err)
				continue
			}
			delete(looked, meta.Hash)
			wait = repairPauseMin
		}
		var again <-chan time.Time
		if failed != nil && ctx.Err() == nil {
			k.o.Log.Warn("a missing file could not be brought back", "error", failed, "again in", wait)
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

// bring gets one file from another node, or else from what this one has.
func (k *Keeper) bring(ctx context.Context, meta segments.FileMeta, looked map[segments.Hash]time.Time) error {
	err := k.fetch(ctx, meta)
	if err == nil {
		k.o.Log.Info("fetched a missing file", "first", meta.First, "last", meta.Last, "bytes", meta.Bytes)
		return nil
	}
	err = fmt.Errorf("messages %d to %d: no other node gave their file: %w", meta.First, meta.Last, err)
	if ctx.Err() != nil || time.Since(looked[meta.Hash]) < localEvery {
		return err
	}
	looked[meta.Hash] = time.Now()
	reclaimed := k.o.History.Reclaim(meta)
	if reclaimed == nil {
		k.o.Log.Info("a missing file was on the disk after all", "first", meta.First, "last", meta.Last)
		return nil
	}
	rebuilt := k.rebuild(meta)
	if rebuilt == nil {
		k.o.Log.Info("rebuilt a missing file from memory", "first", meta.First, "last", meta.Last, "bytes", meta.Bytes)
		return nil
	}
	k.o.Log.Debug("nor does this node have it", "disk", reclaimed, "memory", rebuilt)
	return err
}

// rebuild makes a file from its records: those of the tip, or those of what the file
// replaces, if that is still here.
func (k *Keeper) rebuild(meta segments.FileMeta) error {
	all, err := topic.ParseFilters("**")
	if err != nil {
		return err
	}
	err = k.o.History.Rebuild(meta, k.o.Tip.NewReader(topic.NewSelection(k.o.Topics, all), meta.First-1))
	if err == nil {
		return nil
	}
	r, older := k.o.History.NewRangeReader(meta.First, meta.Last)
	if older != nil {
		return errors.Join(err, older)
	}
	defer r.Close()
	return errors.Join(err, k.o.History.Rebuild(meta, r))
}

// fetch copies one file from a peer into the history, which checks it.
func (k *Keeper) fetch(ctx context.Context, meta segments.FileMeta) error {
	r, w := io.Pipe()
	g, ctx := errgroup.WithContext(ctx)
	var asked error // says more than what Import makes of it
	g.Go(func() error {
		asked = k.o.Fetch(ctx, meta.Hash, w)
		w.CloseWithError(asked) // nil means the end of the file
		return asked
	})
	g.Go(func() error {
		err := k.o.History.Import(meta, r)
		r.CloseWithError(err)
		return err
	})
	err := g.Wait()
	if asked != nil {
		return asked
	}
	return err
}
