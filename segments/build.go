package segments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"chorale/disk"
	"chorale/segments/arena"
	"chorale/segments/format"
	"chorale/segments/layer"
	"chorale/segments/manifest"
)

// Build turns cut stretches into files, and removes files that edits have removed,
// until ctx ends (nil) or the disk fails.
func (l *Log) Build(ctx context.Context) error {
	replayed := l.o.Replayed
	for ctx.Err() == nil {
		more, err := l.BuildOne()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-replayed:
			replayed = nil
		}
	}
	return nil
}

// BuildOne builds the oldest stretch that is due; false if there is none. An error is
// the disk's and ends the node.
func (l *Log) BuildOne() (bool, error) {
	l.building.Lock()
	defer l.building.Unlock()
	if err := l.sweep(); err != nil {
		return false, err
	}
	due := l.due()
	if len(due) == 0 {
		return false, nil
	}
	s := due[0]
	f, err := l.build(s)
	if err != nil {
		return false, err
	}
	var deviating []*file
	l.mu.Lock()
	if slices.Contains(l.view.Load().stretches, s) {
		delete(l.stray, f.Meta.Name())
		l.change(func(v *view) {
			s.built = f
			deviating = l.settle(v)
		})
	} else { // a Restore came in between, or an edit found the file faster
		deviating = l.admit(f)
	}
	l.mu.Unlock()
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
	return true, nil
}

// due lists the closed stretches that are to be built now.
func (l *Log) due() (out []*stretch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view.Load()
	for _, s := range v.stretches {
		if s.closed && s.built == nil &&
			(!l.replaying() || s.Last() <= v.manifest.End() || !l.hasRangeLocked(s.First(), s.Last())) {
			out = append(out, s)
		}
	}
	return out
}

// replaying reports whether edits may come that this node has applied in a former life.
func (l *Log) replaying() bool {
	select {
	case <-l.o.Replayed:
		return false
	default:
		return l.o.Replayed != nil
	}
}

// sweep removes the files that edits have removed, or leaves that to their last reader. But
// in a replay none goes: the layer of a later edit may have the same store again, which is
// nowhere else if all nodes replay.
func (l *Log) sweep() error {
	if l.replaying() {
		return nil
	}
	l.mu.Lock()
	garbage := l.garbage
	l.garbage = nil
	l.mu.Unlock()
	var errs []error
	for _, f := range garbage {
		errs = append(errs, f.Drop())
	}
	return errors.Join(errs...)
}

// build writes the file of a closed stretch. Where a file with its range is here
// already, as after a restart, the bytes are only hashed first: if that file is
// the one, nothing is written.
func (l *Log) build(s *stretch) (*file, error) {
	p := arena.NewLayout(s.Arena, l.o.Topics)
	if l.hasRange(s.First(), s.Last()) {
		sum, err := p.Write(io.Discard)
		if err != nil {
			return nil, err
		}
		if f := l.take(manifest.Describe(sum)); f != nil {
			return f, nil
		}
	}
	temp := l.path(fmt.Sprintf("%020d-%020d.seg%s", s.First(), s.Last(), disk.TempSuffix))
	var sum format.Summary
	err := layer.WriteSynced(l.o.FS, temp, func(w io.Writer) (err error) {
		sum, err = p.Write(w)
		return err
	})
	if err != nil {
		return nil, err
	}
	meta := manifest.Describe(sum)
	sum.File.Path = l.path(meta.Name())
	l.folder.Claim(sum.File.Path)
	if err := l.o.FS.Rename(temp, sum.File.Path); err != nil {
		return nil, err
	}
	return l.folder.New(sum.File, meta), l.o.FS.SyncDir(l.o.Dir)
}

// hasRange reports whether a file of this range is here that no manifest has named.
func (l *Log) hasRange(first, last uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasRangeLocked(first, last)
}

func (l *Log) hasRangeLocked(first, last uint64) bool {
	prefix := fmt.Sprintf("%020d-%020d-", first, last)
	for name := range l.stray {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
