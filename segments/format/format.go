// Package format is the bytes of the data files, segments and stores: how they are
// written, read and proven.
//
// A segment file, version 1. All integers are little-endian.
//
//	┌──────────────┐ 0
//	│ header       │ 64 bytes
//	├──────────────┤ 64
//	│ blocks       │ padded records, topic partition by topic partition in tree
//	│              │ order, by seq within a partition. A block ends with the first
//	│              │ record that brings it to 32 KiB, or with its partition
//	├──────────────┤ 64 + blocks
//	│ block table  │ see blocks.go: what is where
//	│ topic table  │ see topics.go: how much there is of each topic
//	│ time table   │ see times.go: which seqs have which time
//	├──────────────┤ size - 64
//	│ trailer      │ 64 bytes
//	└──────────────┘ size
//
//	header                              trailer
//	0   8  magic "CHORSEG\n"            0   8  bytes of the blocks
//	8   4  version                      8   8  bytes of the block table
//	12  4  zero                         16  8  bytes of the topic table
//	16  8  first seq                    24  8  bytes of the time table
//	24  8  last seq                     32  4  CRC-32C of the block table
//	32  8  time of the first message    36  4  CRC-32C of the topic table
//	40  8  time of the last message     40  4  CRC-32C of the time table
//	48 12  zero                         44  4  CRC-32C of the header, as at 60
//	60  4  CRC-32C of bytes 0..60       48  4  topics
//	                                    52  4  CRC-32C of bytes 0..52
//	                                    56  8  magic "\nGESROHC"
//
// A store file, versions 1 and 2, has the same shape. Its magics are "CHORSTO\n" and
// "\nOTSROHC", its header says at 48 how many messages it holds (8 bytes), since they
// are not all of its range, and at 56, from version 2 on, the bytes of a chapter (4 bytes,
// not 0); its blocks are compressed (see store.go), and its third table is the list table:
// which topics are in which blocks.
//
// The manifest holds the trailer's checksum, the trailer those of header and
// tables, the block table those of the blocks: nothing is trusted by itself.
// Every version keeps the magic at 0, the version at 8 and the sum at 60, so that
// a file from a newer program can be told from a damaged one.
package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"chorale/message"
)

var (
	// ErrCorrupt marks damage: what the bytes are and should be is in the text.
	ErrCorrupt = errors.New("damaged file")
	// ErrForeign is returned for a file that is no data file of Chorale.
	ErrForeign = errors.New("not a data file of Chorale")
	// ErrNewer is returned for what a newer version of the program wrote.
	ErrNewer = errors.New("written by a newer version")
)

const (
	// HeaderBytes and TrailerBytes are the fixed ends of a file.
	HeaderBytes  = 64
	TrailerBytes = 64
	// BlockTarget is the least unit of reading: what resuming in the middle of a
	// partition wastes, against the size of the block table (0.05 %).
	BlockTarget = 32 << 10
	// MaxMessages keeps seqs within a file in 32 bits.
	MaxMessages = math.MaxUint32
)

// versions are the latest of each kind.
var versions = [...]uint32{KindSegment: 1, KindStore: 2}

// Kind tells the kinds of data files apart. The values are part of the log.
type Kind uint8

const (
	// KindSegment is a contiguous stretch of the stream with all its topics.
	KindSegment Kind = 1
	// KindStore holds some of the topics of a range of the stream. The stores of one
	// range are a layer: together they hold each of its messages exactly once.
	KindStore Kind = 2
)

// String is the kind's name in messages.
func (k Kind) String() string {
	switch k {
	case KindSegment:
		return "segment"
	case KindStore:
		return "store"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MarshalText is for JSON; 0 is empty.
func (k Kind) MarshalText() ([]byte, error) {
	if k == 0 {
		return nil, nil
	}
	return []byte(k.String()), nil
}

// FileName is the name of a file: its range of seqs and the first 16 hexadecimal
// digits of its hash.
func (k Kind) FileName(first, last uint64, hash string) string {
	return fmt.Sprintf("%020d-%020d-%s.%s", first, last, hash, magics[k].suffix)
}

// magics begin and end the files of each kind; the suffix ends their names.
var magics = [...]struct{ head, tail, suffix string }{
	KindSegment: {"CHORSEG\n", "\nGESROHC", "seg"},
	KindStore:   {"CHORSTO\n", "\nOTSROHC", "store"},
}

// Header is the head of a file: seqs are inclusive, times in ns.
type Header struct {
	Kind                Kind
	First, Last         uint64 // the range
	FirstTime, LastTime int64  // of its ends
	Messages            uint64 // in the file; of a segment: all of the range
	// Chapter is how many bytes of the stream a store keeps apart by topic (see store.go):
	// 0 in a store of version 1, as in a segment.
	Chapter uint32
}

// SegmentHeader is the header of a segment.
func SegmentHeader(first, last uint64, firstTime, lastTime int64) Header {
	return Header{Kind: KindSegment, First: first, Last: last, FirstTime: firstTime, LastTime: lastTime, Messages: last - first + 1}
}

// Encode returns the HeaderBytes of the header.
func (h Header) Encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, HeaderBytes)
	copy(b, magics[h.Kind].head)
	le.PutUint32(b[8:], 1)
	le.PutUint64(b[16:], h.First)
	le.PutUint64(b[24:], h.Last)
	le.PutUint64(b[32:], uint64(h.FirstTime))
	le.PutUint64(b[40:], uint64(h.LastTime))
	if h.Kind == KindStore {
		le.PutUint64(b[48:], h.Messages)
	}
	if h.Chapter > 0 {
		le.PutUint32(b[8:], 2)
		le.PutUint32(b[56:], h.Chapter)
	}
	le.PutUint32(b[60:], message.Sum(b[:60]))
	return b
}

// DecodeHeader tells a foreign file, a damaged one and a newer one apart, in this
// order of knowledge: magic, checksum, version.
func DecodeHeader(b []byte) (Header, error) {
	le := binary.LittleEndian
	if len(b) < HeaderBytes {
		return Header{}, fmt.Errorf("%w: header of %d bytes, want %d", ErrCorrupt, len(b), HeaderBytes)
	}
	b = b[:HeaderBytes]
	kind := KindSegment
	if string(b[:8]) == magics[KindStore].head {
		kind = KindStore
	} else if string(b[:8]) != magics[KindSegment].head {
		return Header{}, fmt.Errorf("%w: it starts with %q", ErrForeign, b[:8])
	}
	if got, want := message.Sum(b[:60]), le.Uint32(b[60:]); got != want {
		return Header{}, fmt.Errorf("%w: header checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	if v := le.Uint32(b[8:]); v > versions[kind] {
		return Header{}, fmt.Errorf("%w: version %d, this program reads up to %d", ErrNewer, v, versions[kind])
	}
	h := SegmentHeader(le.Uint64(b[16:]), le.Uint64(b[24:]), int64(le.Uint64(b[32:])), int64(le.Uint64(b[40:])))
	if h.Kind = kind; kind == KindStore {
		h.Messages, h.Chapter = le.Uint64(b[48:]), le.Uint32(b[56:])
	}
	if !bytes.Equal(b, h.Encode()) {
		return Header{}, fmt.Errorf("%w: header with another version than its contents have, or reserved bytes that are not zero", ErrCorrupt)
	}
	if err := h.check(); err != nil {
		return Header{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return h, nil
}

func (h Header) check() error {
	if h.First == 0 || h.Last < h.First || h.Last-h.First >= MaxMessages ||
		h.LastTime < h.FirstTime || h.Messages == 0 || h.Messages > h.Last-h.First+1 || h.Chapter > MaxChapterBytes {
		return fmt.Errorf("header of seqs %d to %d, times %d to %d, %d messages, chapters of %d bytes", h.First, h.Last, h.FirstTime, h.LastTime, h.Messages, h.Chapter)
	}
	return nil
}
