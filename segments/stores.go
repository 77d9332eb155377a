package segments

import (
	"chorale/message"
	"chorale/segments/format"
)

// Volumes sums what the files with these hashes hold of each topic: bytes are those
// of the padded records, whatever the kind of the file. The result is in tree order
// (format.CompareTree), its First and Last are seqs over all of the files. Errors:
// ErrNotHere for a file that is not in the manifest or not on this node, ErrCorrupt,
// the disk's. Any goroutine.
func (l *Log) Volumes(inputs []Hash) ([]format.TopicVolume, error) { panic("contract") }

// NewRangeReader reads everything from seq first to last, which must be in files or
// in memory here: at its end Progress.Scanned is last, and Read gives nothing more.
// What it reads stays on the disk until Close, whatever edits do meanwhile. Errors:
// ErrExpired, ErrNotHere. Any goroutine; the reader is for one.
func (l *Log) NewRangeReader(first, last uint64) (*Reader, error) { panic("contract") }

// StoreBuilder writes a layer: the stores of a range. For one goroutine, which may
// take its time between two calls.
//
// Its memory is at most 64 KiB a store, some bytes a block and a topic, and a spool of
// 64 MiB for finished blocks, which goes on in a file; it has two files open at most.
// The bytes of the stores depend on the records, the range and the assignment alone.
type StoreBuilder struct{}

// NewStoreBuilder starts the layer of seqs first to last. storeOf says which store,
// from 0 to stores-1, takes a topic; it must always answer the same. A store without
// messages gets no file. level goes into the files' descriptions (FileMeta.Level). The
// error is the disk's.
func (l *Log) NewStoreBuilder(first, last uint64, firstTime, lastTime int64, level uint8, stores int, storeOf func(topicID uint32) int) (*StoreBuilder, error) {
	panic("contract")
}

// Add copies the next record of the range: seqs rise by one from first. The error is
// the disk's; only Abort may follow it.
func (b *StoreBuilder) Add(r message.Record) error { panic("contract") }

// Finish writes the stores and describes them, in the order of the manifest. All
// records of the range were added. The files are durable then, and the Log holds them
// until an Install names them or Tidy removes them; after a restart they are found
// again: a file that is here already is hashed, not written. progress, if not nil,
// is told the bytes of each finished file; its error ends the work, as that of the
// disk does, and only Abort may follow.
func (b *StoreBuilder) Finish(progress func(bytes int64) error) ([]FileMeta, error) {
	panic("contract")
}

// Abort gives up what is not finished. After Finish it does nothing, so it can be
// deferred. What it cannot remove Open will.
func (b *StoreBuilder) Abort() { panic("contract") }

// Tidy removes the data files here that neither a manifest nor a reader needs: those
// whose seqs lie in complete ranges of the manifest here, or before its start.
// Outputs of seqs first to last are spared: the active plan's; 0, 0 for none. To be
// called when a node has caught up with its log after a start, and when a plan ends.
// The error is the disk's. Any goroutine.
func (l *Log) Tidy(first, last uint64) error { panic("contract") }
