// Package power is what a simulated node keeps on its disk: a file system that
// takes time over disk.Mem, which can lose power, and test doubles of Raft's
// stores over it, which lose what was not synced.
//
// The doubles are small and obvious on purpose; a real node uses bbolt and Raft's
// file snapshots.
package power

import (
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"chorale/disk"
)

// Drive makes each change of a file system take time, and holds no lock meanwhile:
// a crash finds writes that were not synced and syncs that were not answered.
type Drive struct {
	under disk.FS
	mu    sync.Mutex
	rng   *rand.Rand
}

// NewDrive draws the latencies of a file system from seed.
func NewDrive(under disk.FS, seed uint64) *Drive {
	return &Drive{under: under, rng: rand.New(rand.NewPCG(seed, 0xd15c))}
}

const (
	syncTime = 2 * time.Millisecond
	nameTime = 200 * time.Microsecond
)

// wait takes up to most, eight times as long now and then.
func (d *Drive) wait(most time.Duration) {
	d.mu.Lock()
	t := time.Duration(d.rng.Int64N(int64(most)))
	if d.rng.IntN(32) == 0 {
		t *= 8
	}
	d.mu.Unlock()
	time.Sleep(t)
}

// Create implements disk.FS.
func (d *Drive) Create(name string) (disk.File, error) {
	d.wait(nameTime)
	f, err := d.under.Create(name)
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
	d.wait(nameTime)
	return d.under.Rename(oldName, newName)
}

// Remove implements disk.FS.
func (d *Drive) Remove(name string) error {
	d.wait(nameTime)
	return d.under.Remove(name)
}

// MkdirAll implements disk.FS.
func (d *Drive) MkdirAll(dir string) error {
	d.wait(nameTime)
	return d.under.MkdirAll(dir)
}

// SyncDir implements disk.FS.
func (d *Drive) SyncDir(dir string) error {
	d.wait(syncTime)
	return d.under.SyncDir(dir)
}

type file struct {
	disk.File
	d *Drive
}

// Sync implements disk.File. The bytes become durable in the middle of the time
// that it takes.
func (f *file) Sync() error {
	f.d.wait(syncTime / 2)
	if err := f.File.Sync(); err != nil {
		return err
	}
	f.d.wait(syncTime / 2)
	return nil
}
