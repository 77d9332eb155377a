package segments

import (
	"encoding/binary"
	"fmt"
	"math"

	"chorale/message"
)

// A segment file, version 1. All integers are little-endian.
//
//	┌──────────────┐ 0
//	│ header       │ 64 bytes
//	├──────────────┤ 64
//	│ blocks       │ padded records, topic partition by topic partition in tree
//	│              │ order, by seq within a partition. A block ends with the first
//	│              │ record that brings it to 16 KiB, or with its partition
//	├──────────────┤ 64 + blocks
//	│ block table  │ 24 bytes a block
//	│ topic table  │ see topicTable
//	│ time table   │ see timeTable
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
//	block table, an entry a block, in the order of the blocks
//	0   4  partition id
//	4   4  bytes
//	8   4  seq of the first record - first seq of the file
//	12  4  seq of the last record - first seq of the file
//	16  4  records
//	20  4  CRC-32C of the block
//
// The manifest holds the trailer's checksum, the trailer those of header and
// tables, the block table those of the blocks: nothing is trusted by itself.
// Every version keeps the magic at 0, the version at 8 and the sum at 60, so that
// a file from a newer program can be told from a damaged one.
const (
	segmentMagic   = "CHORSEG\n"
	trailerMagic   = "\nGESROHC"
	segmentVersion = 1
	segmentSuffix  = ".seg"

	headerBytes     = 64
	trailerBytes    = 64
	blockEntryBytes = 24

	// blockTarget is the least unit of reading: what resuming in the middle of a
	// partition wastes, against the size of the block table (0.15 %).
	blockTarget = 16 << 10
	// maxSegmentMessages keeps seqs within a file in 32 bits.
	maxSegmentMessages = math.MaxUint32
)

// header is the decoded head of a file.
type header struct {
	first, last         uint64
	firstTime, lastTime int64
}

func (h header) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, headerBytes)
	copy(b, segmentMagic)
	le.PutUint32(b[8:], segmentVersion)
	le.PutUint64(b[16:], h.first)
	le.PutUint64(b[24:], h.last)
	le.PutUint64(b[32:], uint64(h.firstTime))
	le.PutUint64(b[40:], uint64(h.lastTime))
	le.PutUint32(b[60:], message.Sum(b[:60]))
	return b
}

// decodeHeader tells a foreign file, a newer one and a damaged one apart, in this
// order of knowledge: magic, checksum, version.
func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < headerBytes {
		return header{}, fmt.Errorf("%w: header of %d bytes, want %d", ErrCorrupt, len(b), headerBytes)
	}
	if string(b[:8]) != segmentMagic {
		return header{}, fmt.Errorf("%w: it starts with %q", ErrForeign, b[:8])
	}
	if got, want := message.Sum(b[:60]), le.Uint32(b[60:]); got != want {
		return header{}, fmt.Errorf("%w: header checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	if v := le.Uint32(b[8:]); v > segmentVersion {
		return header{}, fmt.Errorf("%w: version %d, this program reads up to %d", ErrNewer, v, segmentVersion)
	} else if v == 0 {
		return header{}, fmt.Errorf("%w: version 0", ErrCorrupt)
	}
	h := header{
		first: le.Uint64(b[16:]), last: le.Uint64(b[24:]),
		firstTime: int64(le.Uint64(b[32:])), lastTime: int64(le.Uint64(b[40:])),
	}
	if h.first == 0 || h.last < h.first || h.last-h.first >= maxSegmentMessages || h.lastTime < h.firstTime {
		return header{}, fmt.Errorf("%w: header of seqs %d to %d, times %d to %d", ErrCorrupt, h.first, h.last, h.firstTime, h.lastTime)
	}
	return h, nil
}

// The tables of a file, in their order.
const (
	blockTable = iota
	topicTable
	timeTable
	tables
)

var tableNames = [tables]string{"block table", "topic table", "time table"}

// trailer is the decoded end of a file.
type trailer struct {
	blocks    int64 // bytes of all blocks
	tables    [tables]tableRef
	headerSum uint32
	topics    uint32
	sum       uint32 // of the trailer itself
}

// tableRef is where a table lies and its checksum.
type tableRef struct {
	off, bytes int64
	sum        uint32
}

func (t *trailer) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, trailerBytes)
	le.PutUint64(b, uint64(t.blocks))
	for i, ref := range t.tables {
		le.PutUint64(b[8+8*i:], uint64(ref.bytes))
		le.PutUint32(b[32+4*i:], ref.sum)
	}
	le.PutUint32(b[44:], t.headerSum)
	le.PutUint32(b[48:], t.topics)
	t.sum = message.Sum(b[:52])
	le.PutUint32(b[52:], t.sum)
	copy(b[56:], trailerMagic)
	return b
}

// decodeTrailer checks the trailer of a file of size bytes.
func decodeTrailer(b []byte, size int64) (trailer, error) {
	le := binary.LittleEndian
	if len(b) < trailerBytes || string(b[56:64]) != trailerMagic {
		return trailer{}, fmt.Errorf("%w: the file does not end with a trailer: it is cut or was never finished", ErrCorrupt)
	}
	t := trailer{blocks: int64(le.Uint64(b)), headerSum: le.Uint32(b[44:]), topics: le.Uint32(b[48:]), sum: le.Uint32(b[52:])}
	if got := message.Sum(b[:52]); got != t.sum {
		return trailer{}, fmt.Errorf("%w: trailer checksum %08x, want %08x", ErrCorrupt, got, t.sum)
	}
	left := size - headerBytes - trailerBytes - t.blocks
	if t.blocks <= 0 || left < 0 {
		return trailer{}, fmt.Errorf("%w: %d bytes of blocks in a file of %d", ErrCorrupt, t.blocks, size)
	}
	off := headerBytes + t.blocks
	for i := range t.tables {
		n := int64(le.Uint64(b[8+8*i:]))
		if n <= 0 || n > left {
			return trailer{}, fmt.Errorf("%w: %s of %d bytes in a file of %d", ErrCorrupt, tableNames[i], n, size)
		}
		t.tables[i] = tableRef{off: off, bytes: n, sum: le.Uint32(b[32+4*i:])}
		off += n
		left -= n
	}
	if left != 0 {
		return trailer{}, fmt.Errorf("%w: %d bytes between tables and trailer", ErrCorrupt, left)
	}
	return t, nil
}

// block is an entry of the block table.
type block struct {
	off         int64 // in the file
	bytes       uint32
	partition   uint32
	first, last uint32 // seqs, relative to the file's first
	count       uint32
	sum         uint32
}

func appendBlock(b []byte, x block) []byte {
	le := binary.LittleEndian
	for _, v := range [...]uint32{x.partition, x.bytes, x.first, x.last, x.count, x.sum} {
		b = le.AppendUint32(b, v)
	}
	return b
}

// decodeBlocks checks that the blocks fill their part of the file, hold as many
// messages as the file, and ascend within a partition.
func decodeBlocks(b []byte, h header, blockBytes int64) ([]block, error) {
	if len(b) == 0 || len(b)%blockEntryBytes != 0 {
		return nil, fmt.Errorf("%w: block table of %d bytes", ErrCorrupt, len(b))
	}
	le := binary.LittleEndian
	blocks := make([]block, 0, len(b)/blockEntryBytes)
	off, messages := int64(headerBytes), uint64(0)
	span := uint32(h.last - h.first)
	for i := 0; len(b) > 0; i, b = i+1, b[blockEntryBytes:] {
		x := block{
			off: off, partition: le.Uint32(b), bytes: le.Uint32(b[4:]), first: le.Uint32(b[8:]),
			last: le.Uint32(b[12:]), count: le.Uint32(b[16:]), sum: le.Uint32(b[20:]),
		}
		least := uint64(x.count) * (message.HeadBytes + message.Align)
		if x.bytes%message.Align != 0 || x.bytes > blockTarget+message.MaxRecordBytes || x.count == 0 || uint64(x.bytes) < least {
			return nil, fmt.Errorf("%w: block %d of %d bytes and %d messages", ErrCorrupt, i, x.bytes, x.count)
		}
		if x.last > span || x.first > x.last || x.last-x.first < x.count-1 {
			return nil, fmt.Errorf("%w: block %d of %d messages has seqs +%d to +%d of +%d", ErrCorrupt, i, x.count, x.first, x.last, span)
		}
		if i > 0 && blocks[i-1].partition == x.partition && blocks[i-1].last >= x.first {
			return nil, fmt.Errorf("%w: block %d starts at +%d, the one before ends at +%d", ErrCorrupt, i, x.first, blocks[i-1].last)
		}
		off += int64(x.bytes)
		messages += uint64(x.count)
		blocks = append(blocks, x)
	}
	if off != headerBytes+blockBytes || messages != h.last-h.first+1 {
		return nil, fmt.Errorf("%w: blocks end at byte %d with %d messages, want %d and %d",
			ErrCorrupt, off, messages, headerBytes+blockBytes, h.last-h.first+1)
	}
	return blocks, nil
}
