// Package partial keeps files on their way from another node, from the first byte to the
// last: a file that broke off is gone on with where it ended, in this life or in a
// later one. Nothing of it is served before the whole has the hash that the manifest
// names.
package partial

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"chorale/disk"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

var (
	// ErrBad means that the bytes that came are not the file: who gave them is to blame,
	// or what lay on the disk since an earlier life.
	ErrBad = errors.New("a copy of the file is no good")
	// ErrBusy is returned for a file that somebody is writing already.
	ErrBusy = errors.New("the file is being fetched already")
)

// suffix ends the names of partial files, behind the name that the whole will have.
const suffix = ".part"

// valid reports whether a name is that of a partial file, and of which data file.
func valid(name string) (of string, ok bool) {
	of, part := strings.CutSuffix(name, suffix)
	_, _, ok = manifest.RangeOf(of)
	return of, part && ok
}

// Store is the folder of partial files. Its methods are for any goroutine.
type Store struct {
	fs  disk.FS
	dir string

	mu    sync.Mutex // never held during I/O
	files map[string]*state
}

// state is what is known of a partial file, by the name of the data file.
type state struct {
	bytes int64
	open  bool
}

// Open looks at the folder and makes it if it is not there. Files that earlier lives have
// left are kept; a foreign name is an error.
func Open(fsys disk.FS, dir string) (*Store, error) {
	s := &Store{fs: fsys, dir: dir, files: make(map[string]*state)}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	entries, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := valid(e.Name())
		if e.IsDir() || !ok {
			return nil, fmt.Errorf("%w: %s: only unfinished copies named FIRST-LAST-HASH.seg%s or .store%s are allowed there; this one can go, if nobody wants it",
				format.ErrForeign, path.Join(dir, e.Name()), suffix, suffix)
		}
		s.files[name] = &state{bytes: e.Size()}
	}
	return s, nil
}

func (s *Store) path(name string) string { return path.Join(s.dir, name+suffix) }

// Begun is how many bytes of a file are here; false if none were ever written.
func (s *Store) Begun(m manifest.FileMeta) (bytes int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.files[m.Name()]
	if x == nil {
		return 0, false
	}
	return min(x.bytes, m.Bytes), true
}

// Stats is how many partial files there are, and what they hold.
func (s *Store) Stats() (files int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.files {
		bytes += x.bytes
	}
	return len(s.files), bytes
}

// Unwanted are the names of partial files that nobody is writing and wanted does not
// want; and of the others that nobody is writing, if there are more than atMost, those
// with the fewest bytes: as many as there are too many.
func (s *Store) Unwanted(wanted func(name string) bool, atMost int) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := make(map[string]int64)
	for name, x := range s.files {
		switch {
		case x.open:
		case wanted(name):
			idle[name] = x.bytes
		default:
			names = append(names, name)
		}
	}
	for ; len(idle) > atMost; delete(idle, names[len(names)-1]) {
		least := ""
		for name, bytes := range idle {
			if least == "" || bytes < idle[least] || bytes == idle[least] && name < least {
				least = name
			}
		}
		names = append(names, least)
	}
	return names
}

// Remove throws a partial file away and tells how many bytes it had; 0 without an error if
// there is none, or if somebody is writing it.
func (s *Store) Remove(name string) (bytes int64, err error) {
	s.mu.Lock()
	x := s.files[name]
	if x == nil || x.open {
		s.mu.Unlock()
		return 0, nil
	}
	x.open = true // nobody begins to write it meanwhile
	s.mu.Unlock()
	return x.bytes, s.remove(name)
}

// remove deletes a file that the caller has open, and forgets it. One that a crash brings
// back is unwanted then, or gone on with.
func (s *Store) remove(name string) error {
	err := s.fs.Remove(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.files, name)
	} else {
		s.files[name].open = false
	}
	return err
}

// forget is told that the file has another name now.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, name)
}

// begin takes a file for writing; known if there is something of it.
func (s *Store) begin(m manifest.FileMeta) (bytes int64, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.files[m.Name()]
	switch {
	case x == nil:
		s.files[m.Name()] = &state{open: true}
		return 0, false, nil
	case x.open:
		return 0, false, fmt.Errorf("%s: %w", m.Name(), ErrBusy)
	}
	x.open = true
	return x.bytes, true, nil
}

// set notes how many bytes a file has, and whether it is still being written.
func (s *Store) set(name string, bytes int64, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.files[name] = state{bytes: bytes, open: open}
}
