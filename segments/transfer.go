package segments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"chorale/disk"
	"chorale/segments/data"
)

// ErrBadCopy is returned by Import when the copy broke off or is not the file (the
// peer is to blame, not the disk), and by Rebuild.
var ErrBadCopy = errors.New("a copy of the file is no good")

// Import takes a missing file from a peer: it is written aside, checked against
// the manifest and then installed. ErrBadCopy means that another peer may do
// better; any other error is the disk's and ends the node. A file that is here
// already is a success without reading.
func (l *Log) Import(meta FileMeta, r io.Reader) error {
	return l.bring(meta, func(w io.Writer) error {
		// One byte more than there should be, to find what is too long.
		_, err := io.Copy(w, copyReader{io.LimitReader(r, meta.Bytes+1)})
		return err
	})
}

// bring installs a missing file whose bytes write gives, whatever they come from: they
// are checked against the manifest first.
func (l *Log) bring(meta FileMeta, write func(io.Writer) error) error {
	if wanted, err := l.beginImport(meta); !wanted {
		return err
	}
	defer l.endImport(meta.Hash)
	name := meta.Name()
	l.folder.Claim(l.path(name))
	err := disk.WriteFile(l.o.FS, l.o.Dir, name, func(w io.Writer) error {
		sum := data.NewSum()
		if err := write(io.MultiWriter(w, sum)); err != nil {
			return err
		}
		if err := sum.Check(meta); err != nil {
			return fmt.Errorf("%w: %w", ErrBadCopy, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.place(meta)
}

// place takes a file in that has come to the folder under its name, sound.
func (l *Log) place(meta FileMeta) error {
	name := l.path(meta.Name())
	f, err := l.folder.Adopt(name, meta)
	if err != nil {
		return err
	}
	if err := l.o.FS.Remove(name + damagedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.mu.Lock()
	deviating := l.admit(f)
	l.mu.Unlock()
	l.awake()
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
	return nil
}

// copyReader marks the errors of the source of a copy.
type copyReader struct{ r io.Reader }

func (c copyReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrBadCopy, err)
	}
	return n, err
}

// beginImport reports whether the file is to be fetched.
func (l *Log) beginImport(meta FileMeta) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view.Load()
	i := v.manifest.Index(meta)
	switch {
	case i < 0:
		return false, fmt.Errorf("segments: %s is not in the manifest", meta.Name())
	case v.files[i] != nil:
		return false, nil
	case l.importing[meta.Hash]:
		return false, fmt.Errorf("segments: %s is being imported already", meta.Name())
	}
	l.importing[meta.Hash] = true
	return true, nil
}

func (l *Log) endImport(h Hash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.importing, h)
}

// OpenFile opens a live file for a peer. It stays readable until it is closed,
// even if it is removed meanwhile. ErrNotHere if the manifest does not name it or
// it is missing.
func (l *Log) OpenFile(h Hash) (disk.File, FileMeta, error) {
	f, handle, err := l.acquire(h)
	if err != nil {
		return nil, FileMeta{}, err
	}
	return lent{handle, f}, f.Meta, nil
}

// acquire opens a live file.
func (l *Log) acquire(h Hash) (*file, disk.File, error) {
	for _, f := range l.view.Load().files {
		if f == nil || f.Meta.Hash != h {
			continue
		}
		handle, err := f.Acquire()
		switch {
		case err == nil:
			return f, handle, nil
		case errors.Is(err, fs.ErrNotExist):
			l.lose(f, err)
		case !errors.Is(err, data.ErrGone):
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%w: no file with hash %s", ErrNotHere, h)
}

// lent is a file whose Close ends the reading of it.
type lent struct {
	disk.File
	f *file
}

func (x lent) Close() error { return x.f.Release() }
