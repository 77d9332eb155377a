package segments

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"chorale/segments/arena"
)

// stretch is a part of the stream in memory.
type stretch struct {
	*arena.Arena
	serial uint64 // tells it from every other stretch of this log, from 1
	closed bool   // nothing is appended any more; guarded by Log.mu
	built  *file  // the file of a closed stretch, durable here; guarded by Log.mu
}

// view is the whole history at one moment. Immutable, as are its slices; the
// stretches in it grow at the open end.
//
// Invariant: stretches are contiguous, and without a gap to the manifest:
// stretches[0].First() <= manifest.End()+1. What lies in both is read from memory.
type view struct {
	manifest  Manifest
	files     []*file // as manifest.Files; nil is not here
	kept      []span  // replaced ranges that are read until what replaced them is here
	stretches []*stretch
}

// stretch returns the stretch that holds seq, and the last seq that it can hold.
func (v *view) stretch(seq, end uint64) (*stretch, uint64) {
	for i, s := range slices.Backward(v.stretches) {
		if s.First() <= seq {
			if i+1 < len(v.stretches) {
				end = min(end, v.stretches[i+1].First()-1)
			}
			return s, end
		}
	}
	return nil, 0
}

// inMemory reports whether all of a file's messages are in memory as well.
func (v *view) inMemory(m FileMeta) bool {
	return len(v.stretches) > 0 && v.stretches[0].First() <= m.First
}

// built lists the files of stretches that have not left memory.
func (v *view) built() (out []*file) {
	for _, s := range v.stretches {
		if s.built != nil {
			out = append(out, s.built)
		}
	}
	return out
}

// lacks reports whether the i-th file is to be fetched. One of a stretch in memory is
// built from there, a store is not.
func (v *view) lacks(i int) bool {
	m := v.manifest.Files[i]
	return v.files[i] == nil && (m.Kind == KindStore || !v.inMemory(m))
}

// change exchanges the view for an edited copy, under l.mu, and tells who waits
// for Changed.
func (l *Log) change(edit func(v *view)) {
	old := l.view.Load()
	v := &view{manifest: old.manifest, files: slices.Clone(old.files), kept: slices.Clone(old.kept), stretches: slices.Clone(old.stretches)}
	edit(v)
	l.view.Store(v)
	close(l.changed)
	l.changed = make(chan struct{})
}

// discard puts own files aside that deviate from the manifest.
func (l *Log) discard(deviating []*file) error {
	var errs []error
	for _, f := range deviating {
		errs = append(errs, fmt.Errorf("this node built seqs %d to %d as %s, which the cluster did not; it is kept as %s%s",
			f.Meta.First, f.Meta.Last, f.Meta.Hash, f.Path, damagedSuffix), l.quarantine(f.Path))
	}
	return errors.Join(errs...)
}

// take adopts a file that the manifest names, if it is here and sound. A damaged
// one is put aside; one of a newer version stays where it is.
func (l *Log) take(m FileMeta) *file {
	name := l.path(m.Name())
	f, err := l.folder.Adopt(name, m)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrForeign):
		l.o.Warn(errors.Join(err, l.quarantine(name)))
	case err != nil:
		l.o.Warn(err)
	}
	return f
}

// quarantine puts a damaged file aside under a name that nobody serves, for a
// person to look at, and for what is sound of it. It may be gone already.
func (l *Log) quarantine(file string) error {
	l.mu.Lock()
	delete(l.stray, path.Base(file))
	l.aside[path.Base(file)] = true
	l.mu.Unlock()
	err := l.o.FS.Rename(file, file+damagedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, l.o.FS.SyncDir(l.o.Dir))
}

// lose is called by a reader that found the file damaged or absent: it is put
// aside and becomes missing, in this order, for once it is missing a sound copy may
// come under its name.
func (l *Log) lose(f *file, cause error) {
	if !f.Lose() {
		return // another reader was faster
	}
	l.o.Warn(errors.Join(cause, l.quarantine(f.Path)))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change(func(v *view) {
		if i := slices.Index(v.files, f); i >= 0 {
			v.files[i] = nil
		}
		v.kept = slices.DeleteFunc(v.kept, func(x span) bool {
			lost := slices.Contains(x.files, f)
			if lost {
				l.retire(v, slices.DeleteFunc(slices.Clone(x.files), func(g *file) bool { return g == f }))
			}
			return lost
		})
	})
	l.awake()
}

// Proposals lists files that are built here but not in the manifest, oldest
// first: what a leader proposes as edits.
func (l *Log) Proposals() []FileMeta {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []FileMeta
	for _, s := range l.view.Load().stretches {
		if s.built == nil {
			break
		}
		out = append(out, s.built.Meta)
	}
	return out
}

// Missing lists the files that the manifest names and this node lacks.
func (l *Log) Missing() []FileMeta {
	v := l.view.Load()
	var out []FileMeta
	for i, m := range v.manifest.Files {
		if v.lacks(i) {
			out = append(out, m)
		}
	}
	return out
}

// Undurable counts the files of the manifest that are not on the disk here.
func (l *Log) Undurable() (n int) {
	for _, f := range l.view.Load().files {
		if f == nil {
			n++
		}
	}
	return n
}

// Changed is closed when the list of proposals or that of missing files may have
// changed. Ask for it before asking for the lists.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Stats may be called by any goroutine.
func (l *Log) Stats() Stats {
	s := Stats{End: l.End(), DurableEnd: l.DurableEnd(), CacheBytes: l.scans.Cache.Bytes()}
	v := l.view.Load()
	s.Oldest, s.Files, s.Stretches = v.manifest.Oldest(), len(v.files), len(v.stretches)
	for _, x := range v.kept {
		s.Replaced += len(x.files)
	}
	for i, m := range v.manifest.Files {
		s.Bytes += m.Bytes
		if m.Kind == KindStore {
			s.Stores++
		}
		if v.lacks(i) {
			s.Missing++
			s.MissingBytes += m.Bytes
		}
	}
	for _, t := range v.stretches {
		s.MemoryBytes += t.MemoryBytes()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Stray, s.Built = len(l.stray), len(l.built)
	return s
}
