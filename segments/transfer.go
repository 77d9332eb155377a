package segments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"chorale/disk"
	"chorale/segments/data"
	"chorale/segments/partial"
)

// ErrBadCopy is returned by Import and Rebuild when the bytes are not the file.
var ErrBadCopy = partial.ErrBad

// Import takes in a missing file that has come from a peer, all of it: it is checked
// against the manifest and then gets its name. ErrBadCopy means that another peer may do
// better; any other error is the disk's. A file that is here already, or that the
// manifest does not name any more, is dropped. p has ended in any case.
func (l *Log) Import(p *partial.File) error {
	if wanted, err := l.beginImport(p.Meta); !wanted {
		return errors.Join(err, p.Drop())
	}
	defer l.endImport(p.Meta.Hash)
	if err := p.Finish(); err != nil {
		return err
	}
	name := l.path(p.Meta.Name())
	l.folder.Claim(name)
	if err := p.MoveTo(name); err != nil {
		return err
	}
	return l.place(p.Meta)
}

// bring installs a missing file whose bytes write gives: they are checked against the
// manifest first.
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
	delete(l.aside, meta.Name())
	deviating := l.admit(f)
	l.mu.Unlock()
	l.awake()
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
	return nil
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

// Salvage opens what is here of a file of the manifest, for a node that finds no sound copy
// of it: it may be damaged or cut. ErrNotHere if nothing is.
func (l *Log) Salvage(h Hash) (disk.File, FileMeta, error) {
	if f, meta, err := l.OpenFile(h); !errors.Is(err, ErrNotHere) {
		return f, meta, err
	}
	for _, m := range l.Manifest().Files {
		if m.Hash != h {
			continue
		}
		for _, at := range l.remains(m) {
			if f, err := l.o.FS.Open(at); err == nil {
				return f, m, nil
			}
		}
	}
	return nil, FileMeta{}, fmt.Errorf("%w: no file with hash %s, nor what is left of one", ErrNotHere, h)
}

// remains are the paths at which something may be left of a missing file.
func (l *Log) remains(meta FileMeta) [2]string {
	name := l.path(meta.Name())
	return [2]string{name, name + damagedSuffix}
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
