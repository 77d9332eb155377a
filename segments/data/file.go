// Package data is a data file that is here: who reads it, who holds it, and when it
// leaves the disk.
package data

import (
	"errors"
	"fmt"
	"sync/atomic"
	"weak"

	"chorale/disk"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// File is a data file that is here. It is open while someone reads, and gone from
// the disk when it was dropped and nobody holds it. Safe for concurrent use.
type File struct {
	*format.File
	Meta manifest.FileMeta

	folder  *Folder
	mu      IOLock    // never held by the applying goroutine
	handle  disk.File // nil without readers
	readers int       // who need the handle
	holds   int       // who need the file, readers included
	dropped bool
	lost    bool                       // a reader found it damaged or absent
	index   weak.Pointer[format.Index] // shared by those who read at a time

	places atomic.Pointer[Places] // see Places
}

// Places say where in the tree a store has topics. Immutable.
type Places struct {
	Partitions []uint32 // ids, ascending
	// Each topic of the store has its first Levels levels in common with one of Topics, which
	// are ids, ascending. Void if that says no more than Partitions.
	Levels int
	Topics []uint32
}

// Places are those of a store; nil as long as nobody has seen its tables since the start.
// Whoever knows them need not look into the tables again to find that nothing is wanted.
func (f *File) Places() *Places { return f.places.Load() }

// LearnPlaces is told what is in the tables.
func (f *File) LearnPlaces(p *Places) { f.places.Store(p) }

// IOLock is a mutex that may be held during I/O. It is a channel, because virtual
// time goes on while somebody waits for a channel, but not for a mutex.
type IOLock chan struct{}

// NewIOLock makes one that nobody holds.
func NewIOLock() IOLock { return make(IOLock, 1) }

// Lock waits until nobody holds the lock.
func (l IOLock) Lock() { l <- struct{}{} }

// Unlock is called by who holds it.
func (l IOLock) Unlock() { <-l }

var (
	// ErrGone is returned for a file that was dropped: the view that named it is out
	// of date.
	ErrGone = errors.New("the file was dropped")
	// ErrNotHere is returned for a position whose file the manifest names but this
	// node does not hold (yet).
	ErrNotHere = errors.New("the file with this part of the stream is not on this node")
)

// Hold keeps the file on the disk until Unhold; ErrGone if it may have left already.
func (f *File) Hold() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holdLocked()
}

func (f *File) holdLocked() error {
	if f.dropped && f.holds == 0 {
		return ErrGone
	}
	f.holds++
	return nil
}

// Unhold ends one Hold. An error is that of the removal of a dropped file.
func (f *File) Unhold() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unholdLocked()
}

func (f *File) unholdLocked() error {
	if f.holds--; f.holds < f.readers {
		panic(fmt.Sprintf("data: %s has %d holds, %d readers", f.Path, f.holds, f.readers))
	}
	if f.holds == 0 && f.dropped {
		return f.folder.remove(f)
	}
	return nil
}

// Acquire holds and opens the file for one reader. A file that is not on the disk any
// more is an error that wraps fs.ErrNotExist.
func (f *File) Acquire() (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.holdLocked(); err != nil {
		return nil, err
	}
	if f.readers == 0 {
		h, err := f.folder.fs.Open(f.Path)
		if err != nil {
			return nil, errors.Join(err, f.unholdLocked())
		}
		f.handle = h
	}
	f.readers++
	return f.handle, nil
}

// Release ends one Acquire. An error is that of the removal of a dropped file.
func (f *File) Release() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers--; f.readers < 0 {
		panic(fmt.Sprintf("data: %s has %d readers", f.Path, f.readers))
	}
	var err error
	if f.readers == 0 {
		err = f.handle.Close()
		f.handle = nil
	}
	return errors.Join(err, f.unholdLocked())
}

// Drop removes the file once nobody holds it.
func (f *File) Drop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = true
	if f.holds == 0 {
		return f.folder.remove(f)
	}
	return nil
}

// Lose reports whether this call is the first to find the file damaged or absent.
func (f *File) Lose() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.lost
	f.lost = true
	return first
}

// Segment returns the index of an acquired segment, reading it if no other reader has
// it, and how many bytes that took.
func (f *File) Segment() (*format.Index, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.index.Value(); x != nil {
		return x, 0, nil
	}
	x, err := f.Index(f.handle)
	if err != nil {
		return nil, 0, err
	}
	f.index = weak.Make(x)
	return x, f.Trailer.Tables[format.BlockTable].Bytes, nil
}
