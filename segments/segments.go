// Package segments owns the history: every data file, its format and version, the
// manifest that lists them, and what of the stream is not yet in a file.
//
// A Log is the history of one node. Its parts stand in a row without a gap: the
// files that the manifest names, stretches in memory that were cut and wait for
// their file and its edit, and the open stretch that Append writes to. See
// DESIGN.md for why.
package segments

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"chorale/disk"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/manifest"
	"chorale/segments/scan"
	"chorale/topic"
)

// The words of the manifest; see there.
type (
	Hash     = manifest.Hash
	Kind     = manifest.Kind
	FileMeta = manifest.FileMeta
	Edit     = manifest.Edit
	Manifest = manifest.Manifest
	Range    = manifest.Range
	// MissingError is the ErrNotHere of a reader.
	MissingError = data.MissingError
)

// The kinds of files; see manifest.
const (
	KindSegment = manifest.KindSegment
	KindStore   = manifest.KindStore
)

// DecodeEdit is the inverse of Edit.Encode. The error wraps ErrCorrupt or ErrNewer.
func DecodeEdit(b []byte) (Edit, error) { return manifest.DecodeEdit(b) }

// DecodeManifest is the inverse of Manifest.Encode. The error wraps ErrCorrupt or
// ErrNewer.
func DecodeManifest(b []byte) (Manifest, error) { return manifest.DecodeManifest(b) }

var (
	// ErrExpired is returned for a position before the oldest kept message.
	ErrExpired = errors.New("the position is older than the oldest kept message")
	// ErrNotHere is returned for a position whose file the manifest names but this
	// node does not hold (yet).
	ErrNotHere = data.ErrNotHere
	// ErrCorrupt marks damage of a file: its name, place and cause are in the text.
	ErrCorrupt = format.ErrCorrupt
	// ErrForeign is returned for a file that is no data file of Chorale.
	ErrForeign = format.ErrForeign
	// ErrNewer is returned for what a newer version of the program wrote.
	ErrNewer = format.ErrNewer
)

// Options of a history.
type Options struct {
	FS     disk.FS
	Dir    string
	Topics *topic.Table
	// PendingStretches is how many cut but unbuilt stretches may wait for Build;
	// the next cut then builds one itself, so that memory stays bounded.
	PendingStretches int
	// CacheBytes bounds the unpacked blocks and the tables of stores that readers share;
	// 0 means 64 MiB.
	CacheBytes int64
	// Replayed is closed when the log of this node, as it was at the start, is applied; nil if
	// there is none. Until then no file is removed, and a stretch that was cut waits for its
	// edit if a file of a former life has its seqs.
	Replayed <-chan struct{}
	// Warn is told of each damaged or deviating file, from any goroutine; nil
	// means nobody listens. What it is told is repaired through Missing.
	Warn func(error)
}

// Log is the history of the stream on one node. One goroutine applies (SetTarget,
// Append, Publish, Cut, CutIfFull, Install, Pending, Restore); one runs Build; any
// number read and do the rest.
type Log struct {
	o      Options
	scans  scan.Shared // of all readers
	folder *data.Folder

	// view is what readers see; end is the newest visible seq. A reader loads end
	// first: the view that it then loads holds all up to there.
	view atomic.Pointer[view]
	end  atomic.Uint64

	// The applying goroutine's.
	target    int64
	open      *stretch
	next      uint64 // seq of the next message to be appended
	stretches uint64 // begun so far

	// mu is held while a view is exchanged for another, never during I/O.
	mu        sync.Mutex
	changed   chan struct{}   // closed and replaced by change
	importing map[Hash]bool   // files that an Import is writing
	garbage   []*file         // removed by edits, to be dropped by BuildOne
	built     []*file         // stores that no edit has named yet
	stray     map[string]bool // data files in the folder that no manifest has named yet
	aside     map[string]bool // those that were put aside, by the names that they had

	building data.IOLock
	wake     chan struct{} // of capacity 1: there may be work for Build
}

// file is a data file that is here.
type file = data.File

const (
	defaultCacheBytes = 64 << 20

	damagedSuffix = manifest.DamagedSuffix
	allowedNames  = "FIRST-LAST-HASH.seg or .store, the same with .damaged, and unfinished *.tmp files are allowed"
)

// Open looks at the folder: unfinished files are removed, a foreign name is an
// error, data files are noted. The manifest is empty until Restore or Install.
func Open(o Options) (*Log, error) {
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	l := &Log{
		o: o, folder: data.NewFolder(o.FS), next: 1, changed: make(chan struct{}), importing: make(map[Hash]bool),
		stray: make(map[string]bool), aside: make(map[string]bool), building: data.NewIOLock(), wake: make(chan struct{}, 1),
	}
	l.scans = scan.Shared{Cache: scan.NewCache(o.CacheBytes), Topics: o.Topics, Window: scan.WindowBytes, Lose: l.lose}
	l.view.Store(&view{})
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, err
	}
	entries, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := l.note(e); err != nil {
			return nil, err
		}
	}
	return l, o.FS.SyncDir(o.Dir)
}

// note takes one entry of the folder into account.
func (l *Log) note(e fs.FileInfo) error {
	name := e.Name()
	whole, aside := strings.CutSuffix(name, damagedSuffix)
	_, _, known := manifest.RangeOf(whole)
	switch {
	case e.IsDir():
		return fmt.Errorf("%w: folder %s: only files named %s", ErrForeign, l.path(name), allowedNames)
	case strings.HasSuffix(name, disk.TempSuffix):
		return l.o.FS.Remove(l.path(name))
	case known && aside:
		l.aside[whole] = true
	case known:
		l.stray[name] = true
	default:
		return fmt.Errorf("%w: %s: only files named %s", ErrForeign, l.path(name), allowedNames)
	}
	return nil
}

func (l *Log) path(name string) string { return path.Join(l.o.Dir, name) }

// Manifest is the current one.
func (l *Log) Manifest() Manifest { return l.view.Load().manifest }

// Oldest is the oldest kept seq, 1 if nothing was ever removed.
func (l *Log) Oldest() uint64 { return l.view.Load().manifest.Oldest() }

// End is the newest visible seq, 0 before the first.
func (l *Log) End() uint64 { return l.end.Load() }

// DurableEnd is the last seq up to which every message lies in files here.
func (l *Log) DurableEnd() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view.Load()
	end := v.manifest.Oldest() - 1
	for i := v.manifest.Find(end + 1); i < len(v.files); i = v.manifest.Find(end + 1) {
		if x, ok := v.keptAt(end + 1); ok {
			end = x.last
		} else if m := v.manifest.Files[i]; v.whole(m.First, m.Last) {
			end = m.Last
		} else {
			break
		}
	}
	for _, s := range v.stretches {
		if s.First() == end+1 && s.built != nil {
			end = s.built.Meta.Last
		}
	}
	return end
}

// Stats is the state of a history.
type Stats struct {
	Files        int   // of the manifest
	Stores       int   // of these
	Bytes        int64 // of these files
	Missing      int   // of these files, not here
	MissingBytes int64
	Replaced     int   // files that edits have replaced, read until what replaced them is here
	Built        int   // stores here that no edit has named yet
	Stray        int   // data files here that no manifest has named
	Stretches    int   // in memory, the open one included
	MemoryBytes  int64 // that they take
	CacheBytes   int64 // that the cache of stores takes
	Oldest, End  uint64
	DurableEnd   uint64
}
