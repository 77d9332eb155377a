package upkeep

import (
	"bytes"
	"context"
	"errors"
	"time"

	"chorale/node/engine/building"
	"chorale/segments"
)

const (
	// deepRate is how fast files are read when somebody asks for it, in bytes a second.
	deepRate = 64 << 20
	// pageFiles and pageTime bound one page of checks.
	pageFiles = 4096
	pageTime  = time.Second
)

// Check is what this node has of a file of the manifest.
type Check struct {
	segments.FileState
	Bad    error     // found by this very check
	ReadAt time.Time // when it was last found sound, or came; zero if not yet
}

// Checks lists files of the manifest behind the one with that first seq and hash, a page
// of them, and whether there are more. deep reads each of them wholly: one that is bad is
// put aside, and Repair brings it back. Errors are those of ctx, and of the system.
func (k *Keeper) Checks(ctx context.Context, afterSeq uint64, afterHash []byte, deep bool) (page []Check, more bool, err error) {
	files := k.o.History.Files()
	from, found := 0, false
	for i, f := range files {
		switch {
		case bytes.Equal(f.Hash[:], afterHash):
			from, found = i+1, true
		case f.First <= afterSeq && !found:
			from = i + 1
		}
	}
	pacer, begin := building.NewPacer(deepRate), time.Now()
	for _, f := range files[from:] {
		if len(page) == pageFiles || len(page) > 0 && time.Since(begin) > pageTime {
			return page, true, nil
		}
		c := Check{FileState: f}
		if deep && f.Here {
			err := k.Verify(ctx, f.FileMeta, pacer.Wait)
			switch {
			case errors.Is(err, segments.ErrCorrupt):
				c.Bad = err
			case errors.Is(err, segments.ErrNotHere): // in memory still, or replaced meanwhile
			case err != nil:
				return page, false, err
			}
		}
		k.mu.Lock()
		c.ReadAt = k.read[f.Hash]
		k.mu.Unlock()
		page = append(page, c)
	}
	return page, false, nil
}
