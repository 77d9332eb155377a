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

// change exchanges the view for an edited copy, under l.mu, and tells who waits
// for Changed.
func (l *Log) change(edit func(v *view)) {
	old := l.view.Load()
	v := &view{manifest: old.manifest, files: slices.Clone(old.files), stretches: slices.Clone(old.stretches)}
	edit(v)
	l.view.Store(v)
	close(l.changed)
	l.changed = make(chan struct{})
}

// settle lets go of the stretches whose files are here and in the manifest. A
// stretch whose file differs from what the manifest names is given up as well: the
// manifest is the cluster's word. Its file is returned for quarantine.
func (v *view) settle() (deviating []*file) {
	for len(v.stretches) > 0 {
		s := v.stretches[0]
		if !s.closed || s.Last() > v.manifest.End() {
			break
		}
		if i := v.manifest.Find(s.First()); i < len(v.files) {
			switch {
			case s.built != nil && s.built.meta == v.manifest.Files[i]:
				v.files[i] = s.built
			case s.built != nil:
				deviating = append(deviating, s.built)
			case v.files[i] == nil:
				return deviating // its file is still to be built
			}
		}
		v.stretches = v.stretches[1:]
	}
	return deviating
}

// discard puts own files aside that deviate from the manifest.
func (l *Log) discard(deviating []*file) error {
	var errs []error
	for _, f := range deviating {
		errs = append(errs, fmt.Errorf("this node built seqs %d to %d as %s, which the cluster did not; it is kept as %s%s",
			f.meta.First, f.meta.Last, f.meta.Hash, f.Path, damagedSuffix), l.quarantine(f.Path))
	}
	return errors.Join(errs...)
}

// take adopts a file that the manifest names, if it is here and sound. A damaged
// one is put aside; one of a newer version stays where it is.
func (l *Log) take(m FileMeta) *file {
	name := l.path(m.Name())
	f, err := adopt(l.o.FS, name, m)
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
// person to look at. It may be gone already.
func (l *Log) quarantine(file string) error {
	l.mu.Lock()
	delete(l.stray, path.Base(file))
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
	if !f.lose() {
		return // another reader was faster
	}
	l.o.Warn(errors.Join(cause, l.quarantine(f.Path)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.view.Load().files, f); i >= 0 {
		l.change(func(v *view) { v.files[i] = nil })
	}
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
		out = append(out, s.built.meta)
	}
	return out
}

// Missing lists the files that the manifest names and this node lacks.
func (l *Log) Missing() []FileMeta {
	v := l.view.Load()
	var out []FileMeta
	for i, f := range v.files {
		if m := v.manifest.Files[i]; f == nil && !v.inMemory(m) {
			out = append(out, m)
		}
	}
	return out
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
	s := Stats{End: l.End(), DurableEnd: l.DurableEnd()}
	v := l.view.Load()
	s.Oldest, s.Files, s.Stretches = v.manifest.Oldest(), len(v.files), len(v.stretches)
	for i, f := range v.files {
		m := v.manifest.Files[i]
		s.Bytes += m.Bytes
		if f == nil && !v.inMemory(m) {
			s.Missing++
			s.MissingBytes += m.Bytes
		}
	}
	for _, t := range v.stretches {
		s.MemoryBytes += t.MemoryBytes()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Stray = len(l.stray)
	return s
}
