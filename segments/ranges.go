package segments

import "slices"

// span is a range whose files are all here, after edits have replaced them.
type span struct {
	first, last uint64
	files       []*file
}

// whole reports whether the files of all ranges that hold the seqs from first to last
// are here, as far as these are not older than the oldest.
func (v *view) whole(first, last uint64) bool {
	if first = max(first, v.manifest.Oldest()); first > last {
		return true
	}
	if last > v.manifest.End() {
		return false
	}
	for i := v.manifest.Find(first); i < len(v.files) && v.manifest.Files[i].First <= last; i++ {
		if v.files[i] == nil {
			return false
		}
	}
	return true
}

// keptAt returns the replaced range that holds seq, if there is one.
func (v *view) keptAt(seq uint64) (span, bool) {
	for _, x := range v.kept {
		if x.first <= seq && seq <= x.last {
			return x, true
		}
	}
	return span{}, false
}

// uses reports whether the file is one of the manifest.
func (v *view) uses(f *file) bool {
	i := v.manifest.Index(f.Meta)
	return i >= 0 && v.files[i] == f
}

// admit finds the place of a file that has come to the folder and that no stretch
// waits for: if the manifest names it, it is in place or now comes to it; if not (any
// more), an edit may yet name it, or Tidy removes it. Returns what settle does. Under
// l.mu.
func (l *Log) admit(f *file) (deviating []*file) {
	old := l.view.Load()
	i := old.manifest.Index(f.Meta)
	if i >= 0 && old.files[i] != nil {
		old.files[i].Own() // both are the same file
		return nil
	}
	l.change(func(v *view) {
		if i < 0 {
			l.stray[f.Meta.Name()] = true
			return
		}
		v.files[i] = f
		deviating = l.settle(v)
	})
	return deviating
}

// retire gives files up that the manifest does not name. Under l.mu.
func (l *Log) retire(v *view, files []*file) {
	for _, f := range files {
		if f != nil && !v.uses(f) {
			l.garbage = append(l.garbage, f)
		}
	}
}

// find returns those of the files that are here: known already, or taken from the
// folder. Of the others, those that this node has built are placed by settle.
func (l *Log) find(metas []FileMeta) map[Hash]*file {
	here := make(map[Hash]*file)
	l.mu.Lock()
	v := l.view.Load()
	known := slices.Clone(v.files)
	for _, x := range v.kept {
		known = append(known, x.files...)
	}
	for _, f := range known {
		if f != nil {
			here[f.Meta.Hash] = f
		}
	}
	built := make(map[FileMeta]bool)
	for _, f := range l.built {
		built[f.Meta] = true
	}
	for _, s := range v.stretches {
		if s.built != nil {
			built[s.built.Meta] = true
		}
	}
	l.mu.Unlock()
	for _, m := range metas {
		if here[m.Hash] == nil && !built[m] {
			here[m.Hash] = l.take(m)
		}
	}
	return here
}

// replace makes next the manifest; here are the files that it may find. A range that
// is not named any more is kept, if its files are all here and others take its place;
// settle decides how long. Files of what was expired go; whatever else is left is a
// stray, for an edit to name again or for Tidy. Under l.mu.
func (l *Log) replace(v *view, next Manifest, here map[Hash]*file) {
	old := view{manifest: v.manifest, files: v.files}
	for _, f := range v.files { // builds and imports may have ended since here was found
		if f == nil {
			continue
		}
		if found := here[f.Meta.Hash]; found != nil && found != f {
			f.Own() // both are the same file
		}
		here[f.Meta.Hash] = f
	}
	v.manifest, v.files = next, make([]*file, len(next.Files))
	for i, m := range next.Files {
		f := here[m.Hash]
		if f == nil {
			continue
		}
		if f.Meta != m { // a store that was made again, at a higher level
			f = l.folder.New(f.File, m)
		}
		v.files[i] = f
		delete(l.stray, m.Name())
	}
	for i, n := 0, 0; i < len(old.files); i += n {
		n = old.manifest.Layer(i)
		m, files := old.manifest.Files[i], old.files[i:i+n]
		switch {
		case !slices.ContainsFunc(files, func(f *file) bool { return f == nil || !v.uses(f) }):
		case m.Last < next.Oldest():
			l.retire(v, files)
		case m.Last <= next.End() && !slices.Contains(files, nil):
			v.kept = append(v.kept, span{m.First, m.Last, files})
		default:
			for _, f := range files {
				if f != nil && !v.uses(f) {
					l.stray[f.Meta.Name()] = true
				}
			}
		}
	}
}

// settle brings together what the manifest names, what this node has built, and what
// it can let go of. Own files that differ from those of the manifest are returned for
// quarantine: the manifest is the cluster's word. Under l.mu.
func (l *Log) settle(v *view) (deviating []*file) {
	l.settleBuilt(v)
	for len(v.stretches) > 0 {
		s := v.stretches[0]
		if !s.closed || s.Last() > v.manifest.End() {
			break
		}
		done, bad := l.settleStretch(v, s)
		if !done {
			break
		}
		if bad {
			deviating = append(deviating, s.built)
		}
		v.stretches = v.stretches[1:]
	}
	v.kept = slices.DeleteFunc(v.kept, func(x span) bool {
		done := v.whole(x.first, x.last)
		if done {
			l.retire(v, x.files)
		}
		return done
	})
	return deviating
}

// settleStretch places the file of a stretch that the manifest covers, and reports
// whether the stretch may leave memory, and whether its file deviates.
func (l *Log) settleStretch(v *view, s *stretch) (done, deviates bool) {
	i := v.manifest.Find(s.First())
	switch {
	case i == len(v.files):
		return true, false
	case v.manifest.Files[i].Kind == KindStore && v.whole(s.First(), s.Last()):
		l.retire(v, []*file{s.built})
		return true, false
	case v.manifest.Files[i].Kind == KindStore && s.built != nil:
		v.kept = append(v.kept, span{s.First(), s.Last(), []*file{s.built}})
		return true, false
	case v.manifest.Files[i].Kind == KindStore:
		return false, false // its file is still to be built, or those of the layer to come
	case s.built == nil:
		return v.files[i] != nil, false
	case s.built.Meta == v.manifest.Files[i]:
		s.built.Own() // an edit may have found it at the same time
		v.files[i] = s.built
		return true, false
	}
	return true, true
}

// settleBuilt places the stores that were built here and that the manifest names.
func (l *Log) settleBuilt(v *view) {
	l.built = slices.DeleteFunc(l.built, func(f *file) bool {
		i := v.manifest.Index(f.Meta)
		switch {
		case i < 0:
			return false
		case v.files[i] == nil:
			v.files[i] = f
		default:
			v.files[i].Own() // both are the same file
		}
		return true
	})
}

// deviating takes out the stores that were built here for a range that the edit makes
// a layer of, and that are not in it. Under l.mu.
func (l *Log) deviating(e Edit) (out []*file) {
	l.built = slices.DeleteFunc(l.built, func(f *file) bool {
		other := slices.ContainsFunc(e.Add, func(m FileMeta) bool {
			return m.Kind == KindStore && m.First == f.Meta.First && m.Last == f.Meta.Last
		})
		if other {
			out = append(out, f)
		}
		return other
	})
	return out
}
