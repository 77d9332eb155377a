package segments

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"chorale/disk"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/mend"
	"chorale/segments/rebuild"
)

// Verify reads a live file wholly, beside all caches, and compares it with its hash.
// A file that is damaged or gone is put aside and becomes missing, as if a reader had
// found it: the error wraps ErrCorrupt then. ErrNotHere if it is missing already, or
// not live any more. pace is told of the bytes before they are read; its errors come
// back, as do those of the system that are no damage. Any goroutine.
func (l *Log) Verify(meta FileMeta, pace func(bytes int64) error) error {
	f := l.holdFile(meta.Hash)
	if f == nil {
		return fmt.Errorf("%w: %s", ErrNotHere, meta.Name())
	}
	// The error of the removal of a dropped file is not that of the file.
	defer func() { _ = f.Unhold() }()
	open, err := data.Verify(l.o.FS, f.Path, f.Meta, pace)
	if err == nil || !open && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = fmt.Errorf("%s: %w: %w", f.Path, ErrCorrupt, err)
	l.lose(f, err)
	return err
}

// holdFile keeps a live file on the disk, or one that is kept until what replaced it is
// here; nil if there is none.
func (l *Log) holdFile(h Hash) *file {
	v := l.view.Load()
	files := v.files
	for _, x := range v.kept {
		files = append(files[:len(files):len(files)], x.files...)
	}
	for _, f := range files {
		if f != nil && f.Meta.Hash == h && f.Hold() == nil {
			return f
		}
	}
	return nil
}

// FileState is what this node has of a file of the manifest.
type FileState struct {
	FileMeta
	Here     bool // or in memory, if it is to be built from there
	Readable bool // here, or what it replaces is
}

// Files lists the files of the manifest.
func (l *Log) Files() []FileState {
	v := l.view.Load()
	out := make([]FileState, len(v.files))
	for i, m := range v.manifest.Files {
		_, kept := v.keptAt(m.First)
		out[i] = FileState{FileMeta: m, Here: !v.lacks(i), Readable: kept || !v.lacks(i)}
	}
	return out
}

// Reclaim takes a missing file back that is on the disk after all: a sound copy that
// somebody has put in its place, or the one that was put aside, if only the reading of
// it had failed. ErrNotHere if there is none.
func (l *Log) Reclaim(meta FileMeta) error {
	if wanted, err := l.beginImport(meta); !wanted {
		return err
	}
	defer l.endImport(meta.Hash)
	name := l.path(meta.Name())
	for _, at := range l.remains(meta) {
		_, err := data.Verify(l.o.FS, at, meta, func(int64) error { return nil })
		if err != nil {
			continue
		}
		if at != name {
			l.folder.Claim(name)
			if err := errors.Join(l.o.FS.Rename(at, name), l.o.FS.SyncDir(l.o.Dir)); err != nil {
				return err
			}
		}
		return l.place(meta)
	}
	return fmt.Errorf("%w: %s: nor a sound copy of it in %s", ErrNotHere, meta.Name(), l.o.Dir)
}

// Records gives padded records in the order of the stream, as Reader.Read does.
type Records = rebuild.Records

// Rebuild makes a missing file from the records of its range, which from gives from the
// first on, all of them. The bytes are held against the manifest: a file that is not
// the same is ErrBadCopy. A store can be told from the rest of its layer only if it is
// known which topics that holds: of stores that are missing too, damaged copies say it,
// what is left here and others, if these are not nil; else, ErrNotHere. Other errors are
// those of from, and the disk's.
func (l *Log) Rebuild(meta FileMeta, from Records, others func(FileMeta) []io.ReaderAt) error {
	var beside rebuild.Beside
	if meta.Kind == KindStore {
		var err error
		if beside, err = l.beside(meta, others); err != nil {
			return err
		}
	}
	write, err := rebuild.File(meta, l.o.Topics, beside, from)
	if err != nil {
		return err
	}
	return l.bring(meta, write)
}

// Mend puts a missing file together from damaged copies: what is left of it here, and
// others, which are asked for what that has not got; see mend.File. The bytes are held
// against the manifest: if they are not the file, ErrBadCopy. If the copies do not make it
// up, mend.ErrLost. Other errors are the disk's.
func (l *Log) Mend(meta FileMeta, others []io.ReaderAt) error {
	copies, end := l.copies(meta, others)
	defer end()
	write, err := mend.File(meta, copies)
	if err != nil {
		return err
	}
	return l.bring(meta, write)
}

// copies are what is left of a missing file here, until end is called, and others.
func (l *Log) copies(meta FileMeta, others []io.ReaderAt) (copies []io.ReaderAt, end func()) {
	var open []disk.File
	for _, at := range l.remains(meta) {
		if f, err := l.o.FS.Open(at); err == nil {
			open, copies = append(open, f), append(copies, f)
		}
	}
	return append(copies, others...), func() {
		for _, f := range open {
			// What was only read need not be closed well.
			_ = f.Close()
		}
	}
}

// maxLeft is of how many missing stores of a layer the topics are looked for in what is left
// of them, each time that one is to be built again.
const maxLeft = 16

// beside looks into all other stores of a layer.
func (l *Log) beside(meta FileMeta, others func(FileMeta) []io.ReaderAt) (rebuild.Beside, error) {
	out, left := rebuild.Beside{Topics: make(map[uint32]bool)}, 0
	for _, m := range l.Manifest().Files {
		if m.First != meta.First || m.Hash == meta.Hash {
			continue
		}
		header, topics, err := l.topicsOf(m.Hash)
		if left < maxLeft && errors.Is(err, ErrNotHere) {
			left++
			topics, err = l.topicsLeft(m, others)
		}
		if err != nil {
			return out, fmt.Errorf("which topics %s held: %w", meta.Name(), err)
		}
		out.Chapters = max(out.Chapters, header.Chapter)
		for _, t := range topics {
			out.Topics[t.ID] = true
		}
	}
	return out, nil
}

// topicsLeft are those of a missing file, by what is left of it.
func (l *Log) topicsLeft(meta FileMeta, others func(FileMeta) []io.ReaderAt) ([]format.TopicVolume, error) {
	var far []io.ReaderAt
	if others != nil {
		far = others(meta)
	}
	copies, end := l.copies(meta, far)
	defer end()
	topics, err := mend.Topics(meta, copies)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotHere, meta.Name(), err)
	}
	return topics, nil
}
