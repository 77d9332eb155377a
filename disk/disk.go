// Package disk is the door to files. Everything of Chorale that touches data
// files goes through FS, so that tests can take its promises away: lose power,
// tear writes, flip bits, fill up, stall. (The Raft log is bbolt's and brings its
// own files.)
package disk

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// FS is a folder tree. Names are slash-separated and relative to its root (as
// fs.ValidPath wants them; "." is the root). All methods are safe for concurrent
// use. Errors name the file and wrap io/fs's sentinels.
type FS interface {
	// Create makes or truncates a file for writing. Its name is durable after
	// SyncDir.
	Create(name string) (File, error)
	// Append opens an existing file for writing behind its end.
	Append(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Rename moves a file and replaces newName atomically; durable after SyncDir
	// of both parents. Folders are not moved.
	Rename(oldName, newName string) error
	// Remove deletes one file; durable after SyncDir. Open files stay readable.
	Remove(name string) error
	// MkdirAll makes a folder and its parents, and syncs the parents.
	MkdirAll(dir string) error
	// List returns the entries of a folder, sorted by name.
	List(dir string) ([]fs.FileInfo, error)
	// SyncDir makes the names of a folder durable.
	SyncDir(dir string) error
}

// File is an open file. A file from Create or Append is written front to back by one
// goroutine; one from Open may be read by many.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Sync makes the contents durable. After an error nothing that was written
	// since the last success may be relied on, whatever later calls return.
	Sync() error
	// Size is the length in bytes.
	Size() (int64, error)
}

// TempSuffix ends the names of unfinished files; at start they can be removed.
const TempSuffix = ".tmp"

// writeBuffer is how many bytes WriteFile gathers before it writes them.
const writeBuffer = 64 << 10

// WriteFile creates dir/name with the bytes that write gives, all or nothing: it
// writes a temporary file, syncs it, renames it and syncs the folder. If it fails
// it leaves at most the temporary file; only if the very last step, the sync of
// the folder, fails, the file is there but not durably.
func WriteFile(fsys FS, dir, name string, write func(io.Writer) error) error {
	final := path.Join(dir, name)
	temp := final + TempSuffix
	if err := writeSynced(fsys, temp, write); err != nil {
		// The first error is the cause; what is left is removed at the next start.
		_ = fsys.Remove(temp)
		return fmt.Errorf("write %s: %w", final, err)
	}
	if err := fsys.Rename(temp, final); err != nil {
		_ = fsys.Remove(temp)
		return fmt.Errorf("write %s: %w", final, err)
	}
	if err := fsys.SyncDir(path.Dir(final)); err != nil {
		return fmt.Errorf("write %s: %w", final, err)
	}
	return nil
}

func writeSynced(fsys FS, name string, write func(io.Writer) error) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	w := bufio.NewWriterSize(f, writeBuffer)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// validate refuses names that leave the tree or are written in two ways.
func validate(op string, names ...string) error {
	for _, name := range names {
		if !fs.ValidPath(name) {
			return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
		}
	}
	return nil
}

// notFile is the error for a folder where a file is needed.
func notFile(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("it is a folder: %w", fs.ErrInvalid)}
}
