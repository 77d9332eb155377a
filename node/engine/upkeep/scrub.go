package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"chorale/disk"
	"chorale/node/engine/building"
	"chorale/segments"
)

const (
	// MinRate is how fast a scrub may read in any case, in bytes a second.
	MinRate = 1 << 20
	// scrubLook is how often a scrub that has nothing to read looks for new files, or
	// ten times in the time of a scrub if that is short.
	scrubLook = 10 * time.Minute
	// scrubSave is how often the times are written down: a crash costs that much work.
	scrubSave = 30 * time.Second
	// stateFile holds the times, in the root of the data folder.
	stateFile = "scrub.json"
)

// scrubState is what the scrub knows; guarded by Keeper.mu.
type scrubState struct {
	// read is when each file was last read and found sound. One that came while the
	// node ran counts as read then: it was written just before.
	read    map[segments.Hash]time.Time
	current segments.FileMeta // being read; zero for none
	bytes   int64             // read since the start
	sound   int64             // files found sound since the start
	bad     int64             // files found bad or gone, ever
	last    Bad
	unsaved bool
}

// Bad is a file that was found bad or gone.
type Bad struct {
	File string
	Time time.Time
	Why  string
}

// ScrubStatus is how far the scrub has come.
type ScrubStatus struct {
	Every         time.Duration // 0: it is off
	Rate          int64         // bytes a second at most
	Current       string        // the file that is being read, "" for none
	Bytes, Sound  int64         // read and found sound since the start
	Bad           int64         // ever found bad or gone by reading them all
	LastBad       Bad
	Due           int       // files whose time has come
	Oldest        time.Time // each file here was read since; zero if one was not yet
	Files, Unread int       // here, and of these not yet read
}

// Scrub reads every file once in a while, the one that was read longest ago first, until
// ctx ends. What it finds bad is put aside, for Repair to bring back.
func (k *Keeper) Scrub(ctx context.Context) error {
	select {
	case <-k.o.CaughtUp:
	case <-ctx.Done():
		return nil
	}
	if k.o.Every <= 0 {
		<-ctx.Done()
		return nil
	}
	k.load()
	k.note(time.Time{})
	saved := time.Now()
	defer k.save()
	for ctx.Err() == nil {
		meta, due := k.next()
		wait := time.Until(due)
		if wait <= 0 {
			wait = k.scrub(ctx, meta)
		}
		if time.Since(saved) >= scrubSave {
			k.save()
			saved = time.Now()
		}
		if wait > 0 {
			t := time.NewTimer(min(wait, scrubLook, k.o.Every/10))
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
		}
		k.note(time.Now())
	}
	return nil
}

// scrub reads one file, and returns how long to wait before the next.
func (k *Keeper) scrub(ctx context.Context, meta segments.FileMeta) time.Duration {
	pacer := building.NewPacer(k.rate())
	err := k.Verify(ctx, meta, pacer.Wait)
	if err == nil || errors.Is(err, segments.ErrCorrupt) || errors.Is(err, segments.ErrNotHere) || ctx.Err() != nil {
		return 0
	}
	k.o.Log.Warn("a file could not be read to verify it", "file", meta.Name(), "error", err, "again in", scrubLook)
	return scrubLook
}

// Verify reads one file wholly and notes what came of it; see segments.Log.Verify for
// its errors.
func (k *Keeper) Verify(ctx context.Context, meta segments.FileMeta, pace func(context.Context, int64) error) error {
	k.mu.Lock()
	k.current = meta
	k.mu.Unlock()
	err := k.o.History.Verify(meta, func(n int64) error {
		if err := pace(ctx, n); err != nil {
			return err
		}
		k.mu.Lock()
		k.bytes += n
		k.mu.Unlock()
		return nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.unsaved = segments.FileMeta{}, true
	switch {
	case err == nil:
		k.sound++
		k.read[meta.Hash] = time.Now()
	case errors.Is(err, segments.ErrNotHere):
		// It is still in memory, and will be written: read when its turn comes again. Or it
		// has just gone, and the next note forgets it. In either case the scrub goes on to
		// another file, instead of asking for this one for ever.
		k.read[meta.Hash] = time.Now()
	case errors.Is(err, segments.ErrCorrupt):
		k.bad++
		k.last = Bad{File: meta.Name(), Time: time.Now(), Why: err.Error()}
		delete(k.read, meta.Hash)
	}
	return err
}

// note takes in which files there are: new ones count as read at the time now.
func (k *Keeper) note(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.read
	k.read = make(map[segments.Hash]time.Time, len(before))
	for _, f := range k.o.History.Files() {
		if !f.Here {
			continue
		}
		at, ok := before[f.Hash]
		if !ok {
			at, k.unsaved = now, true
		}
		k.read[f.Hash] = at
	}
}

// next is the file that was read longest ago, and when its time has come.
func (k *Keeper) next() (meta segments.FileMeta, due time.Time) {
	files := k.o.History.Files()
	lead := k.lead(files)
	k.mu.Lock()
	defer k.mu.Unlock()
	oldest, found := time.Time{}, false
	for _, f := range files {
		at, ok := k.read[f.Hash]
		if ok && f.Here && (!found || at.Before(oldest)) {
			meta, oldest, found = f.FileMeta, at, true
		}
	}
	if !found {
		return meta, time.Now().Add(scrubLook)
	}
	if oldest.After(time.Now()) { // the clock was set back
		return meta, time.Now()
	}
	return meta, oldest.Add(k.o.Every - lead)
}

// lead is how long before the end of its time a file must be begun with, if all others
// are due with it.
func (k *Keeper) lead(files []segments.FileState) time.Duration {
	if k.o.Every <= 0 {
		return 0
	}
	seconds := float64(total(files)) / float64(rate(k.o, files))
	return min(time.Duration(min(seconds, math.MaxInt32)*float64(time.Second)), k.o.Every/2)
}

func total(files []segments.FileState) (n int64) {
	for _, f := range files {
		if f.Here {
			n += f.Bytes
		}
	}
	return n
}

// rate is what the setting says, or what reads all files in half their time.
func rate(o Options, files []segments.FileState) int64 {
	switch {
	case o.Every <= 0:
		return 0
	case o.Rate > 0:
		return o.Rate
	}
	return max(MinRate, int64(2*float64(total(files))/o.Every.Seconds()))
}

func (k *Keeper) rate() int64 { return rate(k.o, k.o.History.Files()) }

// Scrubbed is the state of the scrub.
func (k *Keeper) Scrubbed() ScrubStatus {
	files := k.o.History.Files()
	lead := k.lead(files)
	k.mu.Lock()
	defer k.mu.Unlock()
	s := ScrubStatus{Every: k.o.Every, Rate: rate(k.o, files), Bytes: k.bytes, Sound: k.sound, Bad: k.bad, LastBad: k.last}
	if k.current != (segments.FileMeta{}) {
		s.Current = k.current.Name()
	}
	for _, f := range files {
		if !f.Here {
			continue
		}
		s.Files++
		at, ok := k.read[f.Hash]
		if !ok || at.IsZero() {
			s.Unread++
		}
		if ok && time.Since(at) >= k.o.Every-lead {
			s.Due++
		}
		if s.Files == 1 || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
	return s
}

// state is what stateFile holds.
type state struct {
	Version int              `json:"version"`
	Read    map[string]int64 `json:"read"` // Unix seconds by hash
	Bad     int64            `json:"bad"`
	LastBad *Bad             `json:"last_bad,omitempty"`
}

// load takes up what an earlier life has written down. Without it every file is due.
func (k *Keeper) load() {
	b, err := readFile(k.o.Files, stateFile)
	var s state
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil && s.Version != 1 {
		err = fmt.Errorf("version %d, want 1", s.Version)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.o.Log.Warn("when the files were read is not known, so all are read anew", "file", stateFile, "error", err)
		}
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.o.History.Files() {
		if at := s.Read[f.Hash.String()]; at > 0 {
			k.read[f.Hash] = time.Unix(at, 0)
		}
	}
	k.bad = s.Bad
	if s.LastBad != nil {
		k.last = *s.LastBad
	}
}

func readFile(fsys disk.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}

// save writes down when each file was read. It is worth a repetition of the work, and
// no more.
func (k *Keeper) save() {
	k.mu.Lock()
	if !k.unsaved {
		k.mu.Unlock()
		return
	}
	k.unsaved = false
	s := state{Version: 1, Read: make(map[string]int64, len(k.read)), Bad: k.bad}
	for h, at := range k.read {
		if !at.IsZero() {
			s.Read[h.String()] = at.Unix()
		}
	}
	if k.last != (Bad{}) {
		s.LastBad = &k.last
	}
	b, err := json.Marshal(s)
	k.mu.Unlock()
	if err == nil {
		err = disk.WriteFile(k.o.Files, ".", stateFile, func(w io.Writer) error {
			_, err := w.Write(append(b, '\n'))
			return err
		})
	}
	if err != nil {
		k.o.Log.Warn("when the files were read could not be written down", "file", stateFile, "error", err)
	}
}
