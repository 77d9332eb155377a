// Package power is what a simulated node keeps on its disk: a file system that
// takes time over disk.Mem, which can lose power, and test doubles of Raft's
// stores over it, which lose what was not synced.
//
// The doubles are small and obvious on purpose; a real node uses bbolt and Raft's
// file snapshots.
package power

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"chorale/disk"
)

// ErrOff is the answer of a drive whose process has ended.
var ErrOff = errors.New("the process has ended")

// Drive is the file system as one process sees it. Each change takes time, and no
// lock is held meanwhile: a crash finds writes that were not synced and syncs that
// were not answered. What still runs of a process that has ended changes nothing,
// but for a call that hangs in the disk below, as in a real kernel.
type Drive struct {
	under disk.FS
	off   atomic.Bool
	mu    sync.Mutex
	rng   *rand.Rand
}

// Off ends the drive with its process.
func (d *Drive) Off() { d.off.Store(true) }

// NewDrive draws the latencies of a file system from seed.
func NewDrive(under disk.FS, seed uint64) *Drive {
	return &Drive{under: under, rng: rand.New(rand.NewPCG(seed, 0xd15c))}
}

const (
	syncTime = 2 * time.Millisecond
	nameTime = 200 * time.Microsecond
)

// wait takes up to most, eight times as long now and then. It fails once the drive
// is off.
func (d *Drive) wait(most time.Duration) error {
	d.mu.Lock()
	t := time.Duration(d.rng.Int64N(int64(most)))
	if d.rng.IntN(32) == 0 {
		t *= 8
	}
	d.mu.Unlock()
	time.Sleep(t)
	return d.alive()
}

func (d *Drive) alive() error {
	if d.off.Load() {
		return ErrOff
	}
	return nil
}

// Create implements disk.FS.
func (d *Drive) Create(name string) (disk.File, error) {
	if err := d.wait(nameTime); err != nil {
		return nil, err
	}
	f, err := d.under.Create(name)
	if err != nil {
		return nil, err
	}
	return &file{f, d}, nil
}

// Append implements disk.FS.
func (d *Drive) Append(name string) (disk.File, error) {
	f, err := d.under.Append(name)
	if err != nil {
		return nil, err
	}
	return &file{f, d}, nil
}

// Open implements disk.FS.
func (d *Drive) Open(name string) (disk.File, error) { return d.under.Open(name) }

// List implements disk.FS.
func (d *Drive) List(dir string) ([]fs.FileInfo, error) { return d.under.List(dir) }

// Rename implements disk.FS.
func (d *Drive) Rename(oldName, newName string) error {
	if err := d.wait(nameTime); err != nil {
		return err
	}
	return d.under.Rename(oldName, newName)
}

// Remove implements disk.FS.
func (d *Drive) Remove(name string) error {
	if err := d.wait(nameTime); err != nil {
		return err
	}
	return d.under.Remove(name)
}

// MkdirAll implements disk.FS.
func (d *Drive) MkdirAll(dir string) error {
	if err := d.wait(nameTime); err != nil {
		return err
	}
	return d.under.MkdirAll(dir)
}

// SyncDir implements disk.FS.
func (d *Drive) SyncDir(dir string) error {
	if err := d.wait(syncTime); err != nil {
		return err
	}
	return d.under.SyncDir(dir)
}

type file struct {
	disk.File
	d *Drive
}

// Write implements disk.File.
func (f *file) Write(b []byte) (int, error) {
	if err := f.d.alive(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// Sync implements disk.File. The bytes become durable in the middle of the time
// that it takes.
func (f *file) Sync() error {
	if err := f.d.wait(syncTime / 2); err != nil {
		return err
	}
	if err := f.File.Sync(); err != nil {
		return err
	}
	return f.d.wait(syncTime / 2)
}
