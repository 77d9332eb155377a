package data

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"chorale/disk"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// Folder says which file has a name. A file that was dropped may wait for its readers,
// and another one with the same contents, and so with the same name, may come in the
// meantime: the name is then the newer one's, and does not go with the older one.
type Folder struct {
	fs       disk.FS
	removing IOLock // held while a name goes; before mu
	mu       sync.Mutex
	owners   map[string]*File // by path
}

// NewFolder has no files yet.
func NewFolder(fsys disk.FS) *Folder {
	return &Folder{fs: fsys, removing: NewIOLock(), owners: make(map[string]*File)}
}

// Claim takes a name away from who has it. To be called before a new file gets it.
func (d *Folder) Claim(path string) {
	d.removing.Lock()
	defer d.removing.Unlock()
	d.disown(path, nil)
}

// disown takes a name from its owner, or from this owner alone; false if it is
// another's.
func (d *Folder) disown(path string, owner *File) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if owner != nil && d.owners[path] != owner {
		return false
	}
	delete(d.owners, path)
	return true
}

// New takes in a file that was just written.
func (d *Folder) New(f *format.File, meta manifest.FileMeta) *File {
	x := &File{File: f, Meta: meta, folder: d, mu: NewIOLock()}
	d.own(x)
	return x
}

func (d *Folder) own(f *File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owners[f.Path] = f
}

// Own gives the file its name back, after another of the same contents had it. It
// waits for no I/O.
func (f *File) Own() { f.folder.own(f) }

// remove deletes a file, unless its name is another's. If a crash brings it back it is
// a stray; if it is gone already, by whatever hand, all the better.
func (d *Folder) remove(f *File) error {
	d.removing.Lock()
	defer d.removing.Unlock()
	if !d.disown(f.Path, f) {
		return nil
	}
	if err := d.fs.Remove(f.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Adopt checks that the file is the one that meta describes, blocks aside: their
// checksums are verified whenever they are read. An absent file is an error that
// wraps fs.ErrNotExist; one that is not as described wraps format.ErrCorrupt,
// ErrForeign or ErrNewer.
func (d *Folder) Adopt(path string, meta manifest.FileMeta) (*File, error) {
	h, err := d.fs.Open(path)
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
	if size != meta.Bytes || f.Trailer.Sum != meta.Sum || f.Header != meta.Header(f.Header.Chapter) {
		return nil, f.Damage(0, fmt.Errorf("another file under this name: seqs %d to %d, %d bytes, trailer sum %08x; want %d to %d, %d, %08x",
			f.Header.First, f.Header.Last, size, f.Trailer.Sum, meta.First, meta.Last, meta.Bytes, meta.Sum))
	}
	if err := f.CheckTables(h); err != nil {
		return nil, err
	}
	return d.New(f, meta), nil
}
