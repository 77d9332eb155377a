package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chorale/disk"
)

// stallDeadline is how long one entry may take to apply, and one call that changes
// a data file to return. A leader whose Apply hangs would keep its followers quiet
// with heartbeats for ever, a follower would drop out of the quorum without a
// word, a build that hangs would let memory fill: so the node ends instead.
const stallDeadline = 10 * time.Second

// watchdog knows what is under way that must not hang. Safe for concurrent use.
type watchdog struct {
	mu       sync.Mutex
	next     uint64
	underWay map[uint64]operation
}

type operation struct {
	what  string
	since time.Time
}

func newWatchdog() *watchdog { return &watchdog{underWay: make(map[uint64]operation)} }

// begin notes an operation until end is called.
func (w *watchdog) begin(what string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	id := w.next
	w.underWay[id] = operation{what, time.Now()}
	return func() {
		w.mu.Lock()
		delete(w.underWay, id)
		w.mu.Unlock()
	}
}

// run returns an error when something takes longer than stallDeadline, nil when
// ctx ends.
func (w *watchdog) run(ctx context.Context) error {
	for pause(ctx, stallDeadline/10) {
		if err := w.overdue(); err != nil {
			return err
		}
	}
	return nil
}

func (w *watchdog) overdue() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.underWay {
		if d := time.Since(o.since); d > stallDeadline {
			return fmt.Errorf("%s has taken %v, at most %v is allowed: the disk hangs", o.what, d.Round(time.Second), stallDeadline)
		}
	}
	return nil
}

// watchedFS lets the watchdog see each call that changes a file. Reads are not
// watched: one that hangs holds up its reader alone.
type watchedFS struct {
	disk.FS
	dog *watchdog
}

// Create implements disk.FS.
func (f watchedFS) Create(name string) (disk.File, error) {
	defer f.dog.begin("creating " + name)()
	file, err := f.FS.Create(name)
	return watchedFile{file, f.dog, name}, err
}

// Rename implements disk.FS.
func (f watchedFS) Rename(oldName, newName string) error {
	defer f.dog.begin("renaming " + oldName)()
	return f.FS.Rename(oldName, newName)
}

// Remove implements disk.FS.
func (f watchedFS) Remove(name string) error {
	defer f.dog.begin("removing " + name)()
	return f.FS.Remove(name)
}

// SyncDir implements disk.FS.
func (f watchedFS) SyncDir(dir string) error {
	defer f.dog.begin("syncing folder " + dir)()
	return f.FS.SyncDir(dir)
}

type watchedFile struct {
	disk.File
	dog  *watchdog
	name string
}

// Write implements disk.File.
func (f watchedFile) Write(b []byte) (int, error) {
	defer f.dog.begin("writing " + f.name)()
	return f.File.Write(b)
}

// Sync implements disk.File.
func (f watchedFile) Sync() error {
	defer f.dog.begin("syncing " + f.name)()
	return f.File.Sync()
}
