package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"chorale/node/engine/fetching"
	"chorale/segments"
	"chorale/topic"
)

const (
	repairPauseMin = 100 * time.Millisecond
	repairPauseMax = 5 * time.Second
	// localEvery is how often a file that no other node gives is looked for on this
	// one: somebody may have put it back.
	localEvery = 30 * time.Second
	// atOnce is how many files are fetched at a time.
	atOnce = 4
	// partsKept is how many unfinished copies are kept of files that do not come at the
	// moment; none is larger than its file.
	partsKept = 16
	// idleKept is how long an unfinished copy is kept that nothing wants: just after a
	// start the manifest is older than the copies.
	idleKept = time.Minute
	// currentWait bounds the wait of a node for the newest manifest, before it fetches files
	// of the one that it has.
	currentCheck, currentWait = 50 * time.Millisecond, 15 * time.Second
)

// repairs is the work of Repair. For its goroutine.
type repairs struct {
	*Keeper
	busy   map[segments.Hash]bool
	pauses map[segments.Hash]*pause    // of files that did not come
	looked map[segments.Hash]time.Time // for missing files, on this node
	idle   map[string]time.Time        // partial files that nothing wants, since when
	ends   chan ended
	report report
}

// pause is how long a file that did not come is left alone.
type pause struct {
	until time.Time
	long  time.Duration
}

// ended is what became of a file.
type ended struct {
	meta segments.FileMeta
	err  error
	// local: this node was looked through as well.
	local bool
}

// Repair brings back files that the manifest names and this node lacks, a few at a time,
// until ctx ends. It leaves alone what this node is building itself. Those come first
// that a reader has asked for; then those of which there is something already, so that
// these stay few; then the newest, since whoever comes back from a short absence needs
// them, and a reader of anything needs all that follow.
func (k *Keeper) Repair(ctx context.Context) error {
	r := &repairs{
		Keeper: k, busy: make(map[segments.Hash]bool), pauses: make(map[segments.Hash]*pause),
		looked: make(map[segments.Hash]time.Time), idle: make(map[string]time.Time), ends: make(chan ended, atOnce),
	}
	k.awaitCurrent(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	for ctx.Err() == nil {
		k.Lacking()
		changed := k.o.History.Changed()
		_, builds := k.o.Building.Newest()
		missing := k.want()
		r.clean(missing)
		r.tell(missing)
		for len(r.busy) < atOnce {
			m, ok := r.next(missing)
			if !ok {
				break
			}
			r.busy[m.Hash] = true
			local := time.Since(r.looked[m.Hash]) >= localEvery
			workers.Go(func() { r.ends <- k.bring(ctx, m, local) })
		}
		t := time.NewTimer(r.wait(missing))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-builds:
		case e := <-r.ends:
			r.note(ctx, e)
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// awaitCurrent waits until the node is as far as it knows. The manifest of its snapshot may
// name files that have been replaced since, which nobody has any more or nobody needs. A
// node that hears of no leader does not wait long.
func (k *Keeper) awaitCurrent(ctx context.Context) {
	tick := time.NewTicker(currentCheck)
	defer tick.Stop()
	for begun := time.Now(); !k.o.Current() && time.Since(begun) < currentWait; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// want is what is to be fetched; between two calls Bring goes by the first.
func (k *Keeper) want() []segments.FileMeta {
	missing := slices.DeleteFunc(k.o.History.Missing(), k.o.Building.Makes)
	wanted := make(map[segments.Hash]bool, len(missing))
	for _, m := range missing {
		wanted[m.Hash] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = wanted
	maps.DeleteFunc(k.unmended, func(h segments.Hash, _ *unmended) bool { return !wanted[h] })
	return missing
}

func (k *Keeper) wants(h segments.Hash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wanted[h]
}

// next is the file that is to be fetched next; false if there is none for now.
func (r *repairs) next(missing []segments.FileMeta) (best segments.FileMeta, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range missing {
		if p := r.pauses[m.Hash]; r.busy[m.Hash] || p != nil && now.Before(p.until) {
			continue
		}
		if !ok || r.before(m, best) {
			best, ok = m, true
		}
	}
	return best, ok
}

// before reports whether a goes before b; under mu.
func (r *repairs) before(a, b segments.FileMeta) bool {
	x, xAsked := r.asked[a.Hash]
	y, yAsked := r.asked[b.Hash]
	if xAsked != yAsked {
		return xAsked
	}
	if xAsked && !x.Equal(y) {
		return x.Before(y)
	}
	_, xBegun := r.fetcher.Partial().Begun(a)
	_, yBegun := r.fetcher.Partial().Begun(b)
	if xBegun != yBegun {
		return xBegun
	}
	return a.First > b.First
}

// note takes account of what became of a file.
func (r *repairs) note(ctx context.Context, e ended) {
	delete(r.busy, e.meta.Hash)
	if e.local {
		r.looked[e.meta.Hash] = time.Now()
	}
	if e.err == nil {
		delete(r.pauses, e.meta.Hash)
		delete(r.looked, e.meta.Hash)
		return
	}
	if ctx.Err() != nil || errors.Is(e.err, fetching.ErrUnwanted) {
		return
	}
	r.failed(e.meta, e.err)
	p := r.pauses[e.meta.Hash]
	if p == nil {
		p = &pause{long: repairPauseMin}
		r.pauses[e.meta.Hash] = p
	}
	p.until = time.Now().Add(p.long)
	r.report.failure(r.o.Log, e.err, p.long)
	p.long = min(2*p.long, repairPauseMax)
}

// wait is how long nothing is due.
func (r *repairs) wait(missing []segments.FileMeta) time.Duration {
	wait := time.Hour
	if len(r.busy) > 0 {
		wait = reportEvery
	}
	if len(r.idle) > 0 {
		wait = min(wait, idleKept)
	}
	if len(r.busy) == atOnce {
		return wait
	}
	for _, m := range missing {
		if p := r.pauses[m.Hash]; p != nil && !r.busy[m.Hash] {
			wait = min(wait, max(time.Until(p.until), 0))
		}
	}
	return wait
}

// clean throws away partial files that nothing wants, and more than there should be; and
// forgets what it knew of files that are not missing.
func (r *repairs) clean(missing []segments.FileMeta) {
	names := make(map[string]bool, len(missing))
	for _, m := range missing {
		names[m.Name()] = true
	}
	idle := make(map[string]time.Time)
	for _, name := range r.fetcher.Partial().Unwanted(func(name string) bool { return names[name] }, partsKept) {
		since, known := r.idle[name]
		if !known {
			since = time.Now()
		}
		if !names[name] && (time.Since(since) < idleKept || !r.o.Current()) {
			idle[name] = since
			continue
		}
		if err := r.fetcher.Discard(name); err != nil {
			r.o.Log.Warn("an unfinished copy could not be removed", "file", name, "error", err, "again in", idleKept)
			idle[name] = time.Now()
		}
	}
	r.idle = idle
	gone := func(h segments.Hash) bool { return !r.wants(h) && !r.busy[h] }
	maps.DeleteFunc(r.pauses, func(h segments.Hash, _ *pause) bool { return gone(h) })
	maps.DeleteFunc(r.looked, func(h segments.Hash, _ time.Time) bool { return gone(h) })
}

// bring gets one file from another node, or else from what this one has, if local, or else
// from damaged copies.
func (k *Keeper) bring(ctx context.Context, meta segments.FileMeta, local bool) ended {
	err := k.fetcher.Bring(ctx, meta, func() bool { return k.wants(meta.Hash) })
	if err == nil {
		k.o.Log.Debug("fetched a missing file", "first", meta.First, "last", meta.Last, "bytes", meta.Bytes)
		return ended{meta: meta}
	}
	err = fmt.Errorf("messages %d to %d: no other node gave their file: %w", meta.First, meta.Last, err)
	if ctx.Err() != nil || errors.Is(err, fetching.ErrUnwanted) {
		return ended{meta: meta, err: err}
	}
	if local && k.hasIt(meta) || k.mend(ctx, meta) {
		k.fetcher.Absolve(meta.Hash)
		return ended{meta: meta}
	}
	return ended{meta, err, local}
}

// hasIt brings a file back from this node's disk, or its memory.
func (k *Keeper) hasIt(meta segments.FileMeta) bool {
	reclaimed := k.o.History.Reclaim(meta)
	if reclaimed == nil {
		k.o.Log.Info("a missing file was on the disk after all", "first", meta.First, "last", meta.Last)
		return true
	}
	rebuilt := k.rebuild(meta, nil)
	if rebuilt == nil {
		k.o.Log.Info("rebuilt a missing file from memory", "first", meta.First, "last", meta.Last, "bytes", meta.Bytes)
		return true
	}
	k.o.Log.Debug("nor does this node have it", "disk", reclaimed, "memory", rebuilt)
	return false
}

// rebuild makes a file from its records: those of the tip, or those of what the file
// replaces, if that is still here. For others see segments.Log.Rebuild.
func (k *Keeper) rebuild(meta segments.FileMeta, others func(segments.FileMeta) []io.ReaderAt) error {
	all, err := topic.ParseFilters("**")
	if err != nil {
		return err
	}
	err = k.o.History.Rebuild(meta, k.o.Tip.NewReader(topic.NewSelection(k.o.Topics, all), meta.First-1), others)
	if err == nil {
		return nil
	}
	r, older := k.o.History.NewRangeReader(meta.First, meta.Last)
	if older != nil {
		return errors.Join(err, older)
	}
	defer r.Close()
	return errors.Join(err, k.o.History.Rebuild(meta, r, others))
}
