package segments

import (
	"errors"
	"fmt"
	"io/fs"
	"weak"

	"chorale/disk"
	"chorale/segments/format"
)

// file is a data file that is here. It is open while someone reads, and gone from
// the disk when it was dropped and nobody holds it.
type file struct {
	*format.File
	fs   disk.FS
	meta FileMeta

	mu      ioLock    // never held by the applying goroutine
	handle  disk.File // nil without readers
	readers int       // who need the handle
	holds   int       // who need the file, readers included
	dropped bool
	lost    bool                       // a reader found it damaged or absent
	index   weak.Pointer[format.Index] // shared by those who read at a time
}

func newFile(f *format.File, fsys disk.FS, meta FileMeta) *file {
	return &file{File: f, fs: fsys, meta: meta, mu: newIOLock()}
}

// ioLock is a mutex that may be held during I/O. It is a channel, because virtual
// time goes on while somebody waits for a channel, but not for a mutex.
type ioLock chan struct{}

func newIOLock() ioLock  { return make(ioLock, 1) }
func (l ioLock) Lock()   { l <- struct{}{} }
func (l ioLock) Unlock() { <-l }

// errGone is returned by acquire for a file that was dropped: the view that named
// it is out of date.
var errGone = errors.New("segments: the file was dropped")

// hold keeps the file on the disk until unhold; errGone if it may have left already.
func (f *file) hold() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holdLocked()
}

func (f *file) holdLocked() error {
	if f.dropped && f.holds == 0 {
		return errGone
	}
	f.holds++
	return nil
}

// unhold ends one hold. An error is that of the removal of a dropped file.
func (f *file) unhold() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unholdLocked()
}

func (f *file) unholdLocked() error {
	if f.holds--; f.holds < f.readers {
		panic(fmt.Sprintf("segments: %s has %d holds, %d readers", f.Path, f.holds, f.readers))
	}
	if f.holds == 0 && f.dropped {
		return f.remove()
	}
	return nil
}

// acquire holds and opens the file for one reader. A file that is not on the disk any
// more is an error that wraps fs.ErrNotExist.
func (f *file) acquire() (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.holdLocked(); err != nil {
		return nil, err
	}
	if f.readers == 0 {
		h, err := f.fs.Open(f.Path)
		if err != nil {
			return nil, errors.Join(err, f.unholdLocked())
		}
		f.handle = h
	}
	f.readers++
	return f.handle, nil
}

// release ends one acquire. An error is that of the removal of a dropped file.
func (f *file) release() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers--; f.readers < 0 {
		panic(fmt.Sprintf("segments: %s has %d readers", f.Path, f.readers))
	}
	var err error
	if f.readers == 0 {
		err = f.handle.Close()
		f.handle = nil
	}
	return errors.Join(err, f.unholdLocked())
}

// drop removes the file once nobody holds it.
func (f *file) drop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = true
	if f.holds == 0 {
		return f.remove()
	}
	return nil
}

// remove deletes the file. If a crash brings it back it is a stray; if it is gone
// already, by whatever hand, all the better.
func (f *file) remove() error {
	if err := f.fs.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lose reports whether this call is the first to find the file damaged or absent.
func (f *file) lose() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.lost
	f.lost = true
	return first
}

// load returns the index of an acquired segment, reading it if no other reader has
// it, and how many bytes that took.
func (f *file) load() (*format.Index, int64, error) {
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

// adopt checks that the file is the one that meta describes, blocks aside: their
// checksums are verified whenever they are read. An absent file is an error that
// wraps fs.ErrNotExist; one that is not as described wraps ErrCorrupt, ErrForeign
// or ErrNewer.
func adopt(fsys disk.FS, path string, meta FileMeta) (*file, error) {
	h, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	size, err := h.Size()
	if err != nil {
		return nil, err
	}
	f, err := format.Open(h, size, path)
	if err != nil {
		return nil, err
	}
	if size != meta.Bytes || f.Trailer.Sum != meta.Sum || f.Header != meta.Header() {
		return nil, f.Damage(0, fmt.Errorf("another file under this name: seqs %d to %d, %d bytes, trailer sum %08x; want %d to %d, %d, %08x",
			f.Header.First, f.Header.Last, size, f.Trailer.Sum, meta.First, meta.Last, meta.Bytes, meta.Sum))
	}
	if err := f.CheckTables(h); err != nil {
		return nil, err
	}
	return newFile(f, fsys, meta), nil
}
