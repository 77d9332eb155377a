package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
// of them, and whether there are more. Each is looked for in the folder, and read wholly
// if it is not there in its length, and in any case if deep: one that is bad is put
// aside, and Repair brings it back. Errors are those of ctx, and of the system.
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
	sizes, err := k.sizes()
	if err != nil {
		return nil, false, err
	}
	pacer, begin := building.NewPacer(deepRate), time.Now()
	for _, f := range files[from:] {
		if len(page) == pageFiles || len(page) > 0 && time.Since(begin) > pageTime {
			return page, true, nil
		}
		c := Check{FileState: f}
		if size, there := sizes[f.Name()]; f.Here && (deep || !there || size != f.Bytes) {
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

// sizes are the lengths of the files in the folder, by name.
func (k *Keeper) sizes() (map[string]int64, error) {
	entries, err := k.o.Files.List(k.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("look for the data files: %w", err)
	}
	out := make(map[string]int64, len(entries))
	for _, e := range entries {
		out[e.Name()] = e.Size()
	}
	return out, nil
}
