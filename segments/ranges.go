package segments

import (
	"cmp"
	"slices"
)

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
	i := v.manifest.Find(f.Meta.First)
	return i < len(v.files) && slices.Contains(v.files[i:i+v.manifest.Layer(i)], f)
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
	v.manifest, v.files = next, make([]*file, len(next.Files))
	for i, m := range next.Files {
		if v.files[i] = here[m.Hash]; v.files[i] != nil {
			delete(l.stray, m.Name())
		}
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
	deviating = l.settleBuilt(v)
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
		v.files[i] = s.built
		return true, false
	}
	return true, true
}

// settleBuilt places the stores that were built for a range that the manifest now
// has as a layer.
func (l *Log) settleBuilt(v *view) (deviating []*file) {
	l.built = slices.DeleteFunc(l.built, func(f *file) bool {
		i := v.manifest.Find(f.Meta.First)
		if i == len(v.files) || v.manifest.Files[i].Kind != KindStore || v.manifest.Files[i].First != f.Meta.First || v.manifest.Files[i].Last != f.Meta.Last {
			return false
		}
		layer := v.manifest.Files[i : i+v.manifest.Layer(i)]
		if j := slices.Index(layer, f.Meta); j < 0 {
			deviating = append(deviating, f)
		} else if v.files[i+j] == nil {
			v.files[i+j] = f
		}
		return true
	})
	slices.SortFunc(deviating, func(a, b *file) int { return cmp.Compare(a.Path, b.Path) })
	return deviating
}
