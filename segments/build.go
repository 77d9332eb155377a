package segments

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"chorale/disk"
	"chorale/segments/arena"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// Build turns cut stretches into files, and removes files that edits have removed,
// until ctx ends (nil) or the disk fails.
func (l *Log) Build(ctx context.Context) error {
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
		}
	}
	return nil
}

// BuildOne builds the oldest unbuilt stretch; false if there is none. An error is
// the disk's and ends the node.
func (l *Log) BuildOne() (bool, error) {
	l.building.Lock()
	defer l.building.Unlock()
	if err := l.sweep(); err != nil {
		return false, err
	}
	s := l.oldestUnbuilt()
	if s == nil {
		return false, nil
	}
	f, err := l.build(s)
	if err != nil {
		return false, err
	}
	var deviating []*file
	l.mu.Lock()
	if slices.Contains(l.view.Load().stretches, s) {
		delete(l.stray, f.meta.Name())
		l.change(func(v *view) {
			s.built = f
			deviating = v.settle()
		})
	} else { // a Restore came in between; the file may yet be named by an edit
		l.stray[f.meta.Name()] = true
	}
	l.mu.Unlock()
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
	return true, nil
}

func (l *Log) oldestUnbuilt() *stretch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.view.Load().stretches {
		if s.closed && s.built == nil {
			return s
		}
	}
	return nil
}

// sweep removes the files that edits have removed, or leaves that to their last
// reader.
func (l *Log) sweep() error {
	l.mu.Lock()
	garbage := l.garbage
	l.garbage = nil
	l.mu.Unlock()
	var errs []error
	for _, f := range garbage {
		errs = append(errs, f.drop())
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
		if f := l.take(newMeta(sum)); f != nil {
			return f, nil
		}
	}
	temp := l.path(fmt.Sprintf("%020d-%020d%s%s", s.First(), s.Last(), manifest.SegmentSuffix, disk.TempSuffix))
	var sum format.Summary
	err := writeSynced(l.o.FS, temp, func(w io.Writer) (err error) {
		sum, err = p.Write(w)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := newFile(sum.File, l.o.FS, newMeta(sum))
	f.Path = l.path(f.meta.Name())
	if err := l.o.FS.Rename(temp, f.Path); err != nil {
		return nil, err
	}
	return f, l.o.FS.SyncDir(l.o.Dir)
}

// newMeta is the description of a new segment in the manifest.
func newMeta(s format.Summary) FileMeta {
	h := s.File.Header
	return FileMeta{
		Kind: h.Kind, First: h.First, Last: h.Last, FirstTime: h.FirstTime, LastTime: h.LastTime,
		Messages: h.Messages, Bytes: s.Bytes, Hash: s.Hash, Sum: s.File.Trailer.Sum,
	}
}

func (l *Log) hasRange(first, last uint64) bool {
	prefix := fmt.Sprintf("%020d-%020d-", first, last)
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.stray {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// writeBuffer is how many bytes go to the disk in one call.
const writeBuffer = 256 << 10

// writeSynced makes a durable file whose name is not yet durable. What is left of
// it after an error is removed by Open.
func writeSynced(fsys disk.FS, path string, write func(io.Writer) error) (err error) {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, writeBuffer)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}
