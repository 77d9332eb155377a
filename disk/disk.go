// Package disk is the door to files. Everything of Chorale that touches data
// files goes through FS, so that tests can take its promises away: lose power,
// tear writes, flip bits, fill up, stall. (The Raft log is bbolt's and brings its
// own files.)
package disk

import (
	"io"
	"io/fs"
)

// FS is a folder tree. Names are slash-separated and relative to its root. All
// methods are safe for concurrent use. Errors wrap io/fs's sentinels.
type FS interface {
	// Create makes or truncates a file for writing.
	Create(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Rename replaces newName atomically; durable after SyncDir of both parents.
	Rename(oldName, newName string) error
	// Remove deletes one file.
	Remove(name string) error
	// MkdirAll makes a folder and its parents, and syncs the parents.
	MkdirAll(dir string) error
	// List returns the entries of a folder, sorted by name.
	List(dir string) ([]fs.FileInfo, error)
	// SyncDir makes the names of a folder durable.
	SyncDir(dir string) error
}

// File is an open file. A file from Create is written front to back by one
// goroutine; one from Open may be read by many.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Sync makes the contents durable.
	Sync() error
	// Size is the length in bytes.
	Size() (int64, error)
}

// WriteFile creates dir/name with the bytes that write gives, all or nothing: it
// writes a temporary file, syncs it, renames it and syncs the folder.
func WriteFile(fsys FS, dir, name string, write func(io.Writer) error) error { panic("contract") }

// TempSuffix ends the names of unfinished files; at start they can be removed.
const TempSuffix = ".tmp"

// OS is the real file system below a root folder.
func OS(root string) FS { panic("contract") }

// Mem is a file system in memory that can fail on purpose.
type Mem struct{}

// NewMem returns an empty one. Seed decides what a crash keeps.
func NewMem(seed uint64) *Mem { panic("contract") }
