// Package watchdog finds out that something hangs which must not: the application
// of an entry, or a call that changes a data file.
package watchdog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chorale/disk"
)

// Deadline is how long one entry may take to apply, and one call that changes
// a data file to return. A leader whose Apply hangs would keep its followers quiet
// with heartbeats for ever, a follower would drop out of the quorum without a
// word, a build that hangs would let memory fill: so the node ends instead.
const Deadline = 10 * time.Second

// Dog knows what is under way that must not hang. Safe for concurrent use.
type Dog struct {
	mu       sync.Mutex
	next     uint64
	underWay map[uint64]operation
}

type operation struct {
	what  string
	since time.Time
}

// New returns a dog that watches nothing yet.
func New() *Dog { return &Dog{underWay: make(map[uint64]operation)} }

// Begin notes an operation until end is called.
func (w *Dog) Begin(what string) (end func()) {
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

// Run returns an error when something takes longer than Deadline, nil when ctx
// ends.
func (w *Dog) Run(ctx context.Context) error {
	tick := time.NewTicker(Deadline / 10)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.overdue(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Dog) overdue() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.underWay {
		if d := time.Since(o.since); d > Deadline {
			return fmt.Errorf("%s has taken %v, at most %v is allowed: the disk hangs", o.what, d.Round(time.Second), Deadline)
		}
	}
	return nil
}

// Files returns the same files, with the dog watching each call that changes one.
func (w *Dog) Files(f disk.FS) disk.FS { return watchedFS{f, w} }

// watchedFS lets the dog see each call that changes a file. Reads are not
// watched: one that hangs holds up its reader alone.
type watchedFS struct {
	disk.FS
	dog *Dog
}

// Create implements disk.FS.
func (f watchedFS) Create(name string) (disk.File, error) {
	defer f.dog.Begin("creating " + name)()
	file, err := f.FS.Create(name)
	return watchedFile{file, f.dog, name}, err
}

// Append implements disk.FS.
func (f watchedFS) Append(name string) (disk.File, error) {
	defer f.dog.Begin("opening " + name)()
	file, err := f.FS.Append(name)
	return watchedFile{file, f.dog, name}, err
}

// Rename implements disk.FS.
func (f watchedFS) Rename(oldName, newName string) error {
	defer f.dog.Begin("renaming " + oldName)()
	return f.FS.Rename(oldName, newName)
}

// Remove implements disk.FS.
func (f watchedFS) Remove(name string) error {
	defer f.dog.Begin("removing " + name)()
	return f.FS.Remove(name)
}

// SyncDir implements disk.FS.
func (f watchedFS) SyncDir(dir string) error {
	defer f.dog.Begin("syncing folder " + dir)()
	return f.FS.SyncDir(dir)
}

type watchedFile struct {
	disk.File
	dog  *Dog
	name string
}

// Write implements disk.File.
func (f watchedFile) Write(b []byte) (int, error) {
	defer f.dog.Begin("writing " + f.name)()
	return f.File.Write(b)
}

// Sync implements disk.File.
func (f watchedFile) Sync() error {
	defer f.dog.Begin("syncing " + f.name)()
	return f.File.Sync()
}
