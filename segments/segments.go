// Package segments owns the history: every data file, its format and version, the
// manifest that lists them, and what of the stream is not yet in a file.
package segments

import (
	"context"
	"errors"
	"io"

	"chorale/disk"
	"chorale/message"
	"chorale/topic"
)

var (
	// ErrExpired is returned for a position before the oldest kept message.
	ErrExpired = errors.New("the position is older than the oldest kept message")
	// ErrNotHere is returned for a position whose file the manifest names but this
	// node does not hold (yet).
	ErrNotHere = errors.New("the file with this part of the stream is not on this node")
	// ErrCorrupt marks damage of a file: its name, place and cause are in the text.
	ErrCorrupt = errors.New("damaged file")
)

// Hash is the SHA-256 of a whole file.
type Hash [32]byte

// Kind tells the kinds of data files apart.
type Kind uint8

// KindSegment is a contiguous stretch of the stream with all its topics.
const KindSegment Kind = 1

// FileMeta describes one immutable data file in the manifest.
type FileMeta struct {
	Kind        Kind
	First, Last uint64 // seqs, inclusive
	FirstTime   int64  // of message First; ns
	LastTime    int64
	Messages    uint64
	Bytes       int64 // of the file
	Hash        Hash
}

// Edit changes the manifest: it removes files by hash and adds others. It is data
// in the Raft log.
type Edit struct {
	Remove []Hash
	Add    []FileMeta
}

// Encode and DecodeEdit are the versioned encoding of an edit.
func (e Edit) Encode() []byte           { panic("contract") }
func DecodeEdit(b []byte) (Edit, error) { panic("contract") }

// Manifest lists the live files, ascending by First. Immutable.
type Manifest struct{ Files []FileMeta }

// Apply returns the manifest after the edit, or why the edit is refused: it does
// not continue at the end, overlaps, names a file that is not there. Pure.
func (m Manifest) Apply(e Edit) (Manifest, error) { panic("contract") }

// Options of a history.
type Options struct {
	FS     disk.FS
	Dir    string
	Topics *topic.Table
	// PendingStretches is how many cut but unbuilt stretches may wait for Build;
	// the next cut then builds one itself, so that memory stays bounded.
	PendingStretches int
}

// Log is the history of the stream on one node: the files of the manifest, the
// stretches that were cut but are not yet both a file here and in the manifest,
// and the open stretch. It always reaches to the newest message. One goroutine
// applies (Append, Publish, Cut, Install, Restore); one runs Build; any number
// read.
type Log struct{}

// Open looks at the folder: unfinished files are removed, a foreign name is an
// error, data files are noted. The manifest is empty until Restore or Install.
func Open(o Options) (*Log, error) { panic("contract") }

// SetTarget sets the size of records at which a stretch is cut; the same on all
// nodes, from the log.
func (l *Log) SetTarget(bytes int64) { panic("contract") }

// Append copies a stamped record to the open stretch; seqs rise by one.
func (l *Log) Append(partition uint32, r message.Record) { panic("contract") }

// Publish makes what was appended visible to readers.
func (l *Log) Publish() { panic("contract") }

// CutIfFull ends the open stretch if it has reached the target: called at the end
// of every entry, so the cut depends on the log alone. An error is the disk's and
// ends the node.
func (l *Log) CutIfFull() error { panic("contract") }

// Build turns cut stretches into files until ctx ends (nil) or the disk fails.
func (l *Log) Build(ctx context.Context) error { panic("contract") }

// BuildOne builds the oldest unbuilt stretch; false if there is none.
func (l *Log) BuildOne() (bool, error) { panic("contract") }

// Proposals lists files that are built here but not in the manifest, oldest
// first: what a leader proposes as edits. Changed is closed when that list, or
// the list of missing files, may have changed.
func (l *Log) Proposals() []FileMeta    { panic("contract") }
func (l *Log) Changed() <-chan struct{} { panic("contract") }

// Install applies a committed edit. refused is data (deterministic, from the
// manifest alone). If a file of the edit was built here with another hash, the
// own one is discarded and becomes missing; mismatch says so.
func (l *Log) Install(e Edit) (refused error, mismatch error) { panic("contract") }

// Manifest is the current one.
func (l *Log) Manifest() Manifest { panic("contract") }

// Oldest is the oldest kept seq (1 if nothing was ever removed), End the newest
// visible one.
func (l *Log) Oldest() uint64 { panic("contract") }
func (l *Log) End() uint64    { panic("contract") }

// DurableEnd is the last seq up to which every message lies in files here.
func (l *Log) DurableEnd() uint64 { panic("contract") }

// Stretch is a part of the stream that is still in memory. Its bytes are
// immutable.
type Stretch struct {
	First, Last uint64
	Closed      bool     // cut, waiting for its file
	Chunks      [][]byte // padded records
}

// Pending captures what a snapshot must carry: all stretches in memory,
// ascending. On the applying goroutine; cheap, copies nothing.
func (l *Log) Pending() []Stretch { panic("contract") }

// Restore empties the log and sets manifest and next seq: of the first message
// that will be appended. The caller then appends the snapshot's stretches,
// cutting (Cut) where they were closed.
func (l *Log) Restore(m Manifest, next uint64) error { panic("contract") }

// Cut ends the open stretch unconditionally; for Restore only.
func (l *Log) Cut() error { panic("contract") }

// Missing lists the files that the manifest names and this node lacks.
func (l *Log) Missing() []FileMeta { panic("contract") }

// Import takes a missing file from a peer: it is written aside, checked against
// meta and then installed.
func (l *Log) Import(meta FileMeta, r io.Reader) error { panic("contract") }

// OpenFile opens a live file for a peer.
func (l *Log) OpenFile(h Hash) (disk.File, FileMeta, error) { panic("contract") }

// SeekTime returns the seq behind which the messages of time t or later lie.
func (l *Log) SeekTime(t int64) (after uint64, err error) { panic("contract") }

// Reader walks the wanted messages of the history. For one goroutine.
type Reader struct{}

// NewReader starts behind seq after. Close releases what it holds.
func (l *Log) NewReader(sel *topic.Selection, after uint64) *Reader { panic("contract") }

// Read appends padded records like tip.Reader.Read, up to limit bytes (at least
// one message if there is one), or to the end of the history. Errors: ErrExpired,
// ErrNotHere, ErrCorrupt; Progress is valid with each.
func (r *Reader) Read(dst []byte, limit int) ([]byte, message.Progress, error) { panic("contract") }

// Close releases files and buffers.
func (r *Reader) Close() { panic("contract") }
