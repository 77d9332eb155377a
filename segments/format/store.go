package format

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"

	"chorale/message"
	"chorale/segments/chapter"

	"github.com/klauspost/compress/zstd"
)

// The range of a layer is cut into chapters: each takes records in the order of the stream,
// as long as they fill, in all stores together, no more than the header says. What a store
// has of a chapter stands in blocks by topic, as package chapter lays it out, and within a
// block in the order of the stream. Each block is compressed by itself as one zstd frame.
//
// In version 1 each store has chapters of its own: a block of up to 64 KiB, all topics mixed.
//
// The block table of a store lists the blocks in their order, each as
//
//	uvarint  stored bytes: those of the frame
//	uvarint  bytes of the records / 8
//	uvarint  seq of the first record - seq of the last record before the chapter
//	         (of the first chapter: - first seq of the file)
//	uvarint  seq of the last record - seq of the first
//	uvarint  records; in version 2 twice as many, + 1 if the block begins a chapter
//	uvarint  time of the first record - time of the last record before the chapter
//	         (of the first chapter: - first time of the file)
//	uvarint  time of the last record - time of the first
//	4 bytes  CRC-32C of the frame

// StoreBlock is an entry of the block table of a store.
type StoreBlock struct {
	Off                 int64  // in the file
	Stored              uint32 // bytes in the file
	Raw                 uint32 // bytes of its records
	First, Last         uint32 // seqs of its records, relative to the file's first
	Count               uint32 // of its records
	Sum                 uint32 // of its stored bytes
	FirstTime, LastTime int64
	Begins              bool // a chapter
}

const (
	// ChapterBytes is the usual size of a chapter: how far apart in the stream messages of
	// a topic may come to lie together, against the memory of who builds or reads all.
	ChapterBytes = 32 << 20
	// MaxChapterBytes bounds what a file may ask for.
	MaxChapterBytes = 1 << 30
)

// Chapters cuts a layer whose header says chapter, for all of its stores at a time.
func Chapters(chapterBytes uint32) chapter.Cutter {
	if chapterBytes == 0 {
		return chapter.Cutter{Bytes: math.MaxInt}
	}
	return chapter.Cutter{Bytes: int(chapterBytes)}
}

// cut bounds the records of more than one in a chapter of a store.
func (h Header) cut() int {
	if h.Chapter == 0 {
		return chapter.BlockBytes
	}
	return int(h.Chapter)
}

const (
	storeBlockFields     = 7
	storeBlockEntryBytes = storeBlockFields + 4 // at least
	// maxStoreBytes bounds the records of a store; it keeps sums from wrapping.
	maxStoreBytes = 1 << 56
)

// maxStored is the most that a frame of so many bytes takes, with room to spare.
func maxStored(raw uint64) uint64 { return raw + raw/64 + 64 }

// appendStoreBlock encodes an entry; before is where the chapter before it ends, or
// stands for the start of the file.
func appendStoreBlock(b []byte, h Header, x StoreBlock, before chapterEnd) []byte {
	count := uint64(x.Count)
	if h.Chapter > 0 {
		count *= 2
		if x.Begins {
			count++
		}
	}
	for _, v := range [storeBlockFields]uint64{
		uint64(x.Stored), uint64(x.Raw / message.Align), uint64(x.First - before.last), uint64(x.Last - x.First), count,
		uint64(x.FirstTime - before.time), uint64(x.LastTime - x.FirstTime),
	} {
		b = binary.AppendUvarint(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, x.Sum)
}

// chapterEnd is how far blocks reach.
type chapterEnd struct {
	last   uint32 // seq, relative to the file's first
	time   int64
	blocks int
	all    uint64 // records
	// Of the last chapter.
	bytes, records uint64
}

// startOf is where no block has been.
func startOf(h Header) chapterEnd { return chapterEnd{time: h.FirstTime} }

// add takes in a block.
func (c *chapterEnd) add(x StoreBlock) {
	if x.Begins {
		c.bytes, c.records = 0, 0
	}
	c.last, c.time = max(c.last, x.Last), max(c.time, x.LastTime)
	c.blocks++
	c.all += uint64(x.Count)
	c.bytes += uint64(x.Raw)
	c.records += uint64(x.Count)
}

// decodeStoreBlocks checks that the blocks fill their part of the file, hold as many
// messages as it, and that chapters ascend and keep to their bound.
func decodeStoreBlocks(b []byte, h Header, blockBytes int64) ([]StoreBlock, error) {
	blocks := make([]StoreBlock, 0, len(b)/(2*storeBlockEntryBytes))
	off := int64(HeaderBytes)
	before, end := startOf(h), startOf(h)
	for len(b) > 0 {
		x, rest, err := decodeStoreBlock(b, &before, end, h)
		if end.add(x); err == nil && end.records > 1 && end.bytes > uint64(h.cut()) {
			err = fmt.Errorf("its chapter has %d records of %d bytes", end.records, end.bytes)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrCorrupt, len(blocks), err)
		}
		x.Off, b = off, rest
		off += int64(x.Stored)
		blocks = append(blocks, x)
	}
	if off != HeaderBytes+blockBytes || end.all != h.Messages {
		return nil, fmt.Errorf("%w: blocks end at byte %d with %d messages, want %d and %d",
			ErrCorrupt, off, end.all, HeaderBytes+blockBytes, h.Messages)
	}
	return blocks, nil
}

// decodeStoreBlock takes one entry off b; end is how far the blocks before it reach, and
// becomes before if the entry begins a chapter.
func decodeStoreBlock(b []byte, before *chapterEnd, end chapterEnd, h Header) (x StoreBlock, rest []byte, err error) {
	var f [storeBlockFields]uint64
	rest, ok := takeUvarints(b, f[:])
	if !ok || len(rest) < 4 {
		return x, nil, fmt.Errorf("it is cut")
	}
	x.Sum = binary.LittleEndian.Uint32(rest)
	raw, count := f[1]*message.Align, f[4]
	if x.Begins = true; h.Chapter > 0 {
		x.Begins, count = count&1 == 1, count>>1
	}
	if f[1] > message.MaxRecordBytes/message.Align || count == 0 || raw/minStride < count || raw > chapter.BlockBytes && count > 1 ||
		f[0] == 0 || f[0] > maxStored(raw) {
		return x, nil, fmt.Errorf("%d records of %d bytes in %d", count, raw, f[0])
	}
	if x.Begins {
		*before = end
	} else if end.blocks == 0 {
		return x, nil, fmt.Errorf("it begins no chapter")
	}
	left := h.Last - h.First - uint64(before.last)
	if f[2] > left || f[2] == 0 && before.blocks > 0 || f[3] > left-f[2] || f[3] < count-1 {
		return x, nil, fmt.Errorf("%d records with seqs +%d to +%d more behind +%d of +%d", count, f[2], f[3], before.last, h.Last-h.First)
	}
	time := uint64(h.LastTime - before.time)
	if f[5] > time || f[6] > time-f[5] {
		return x, nil, fmt.Errorf("it ends behind the file's last time %d", h.LastTime)
	}
	x.Stored, x.Raw, x.Count = uint32(f[0]), uint32(raw), uint32(count)
	x.First = before.last + uint32(f[2])
	x.Last = x.First + uint32(f[3])
	x.FirstTime = before.time + int64(f[5])
	x.LastTime = x.FirstTime + int64(f[6])
	return x, rest[4:], nil
}

// StoreIndex is what a reader needs of a store: where its blocks are, and which of
// them hold a topic. Immutable.
type StoreIndex struct {
	Blocks []StoreBlock
	lists
}

// StoreIndex reads block table and list table of a store.
func (f *File) StoreIndex(r io.ReaderAt) (*StoreIndex, error) {
	b, err := f.table(r, BlockTable)
	if err != nil {
		return nil, err
	}
	x := new(StoreIndex)
	if x.Blocks, err = decodeStoreBlocks(b, f.Header, f.Trailer.Blocks); err != nil {
		return nil, f.Damage(f.Trailer.Tables[BlockTable].Off, err)
	}
	if b, err = f.table(r, ListTable); err != nil {
		return nil, err
	}
	if x.lists, err = decodeLists(b, f.Trailer.Topics, len(x.Blocks)); err != nil {
		return nil, f.Damage(f.Trailer.Tables[ListTable].Off, err)
	}
	return x, nil
}

// MemoryBytes is what the index takes in memory, about.
func (x *StoreIndex) MemoryBytes() int64 {
	return int64(cap(x.Blocks))*64 + int64(len(x.ids)+len(x.ends))*4 + int64(len(x.table))
}

// ReadStored fills buf with the stored bytes of blocks, which are neighbours, by one
// call of the disk.
func (f *File) ReadStored(r io.ReaderAt, blocks []StoreBlock, buf []byte) error {
	return f.readAt(r, buf, blocks[0].Off)
}

// Unpack verifies the stored bytes of a block and returns its records. The caller
// owns them.
func (f *File) Unpack(b StoreBlock, stored []byte) ([]byte, error) {
	if err := f.checkSum("block", stored, b.Off, b.Sum); err != nil {
		return nil, err
	}
	raw, err := unpacker.DecodeAll(stored, make([]byte, 0, b.Raw))
	if err == nil && len(raw) != int(b.Raw) {
		err = fmt.Errorf("%d bytes of records, want %d", len(raw), b.Raw)
	}
	if err != nil {
		return nil, f.Damage(b.Off, err)
	}
	return raw, nil
}

// unpacker is shared: it decodes as many blocks at once as there are processors. It is
// made at the start, since what is made in a bubble of testing/synctest stays there.
var unpacker = newUnpacker()

func newUnpacker() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(message.MaxRecordBytes))
	if err != nil {
		panic(fmt.Sprintf("format: options of the decoder: %v", err))
	}
	return d
}

// packing is shared as the unpacker is: an encoder's tables are 1.4 MB, and what it packs
// does not depend on what it has packed before. All nodes must pack alike, so its
// settings are part of the format: a change of them is a new version.
var packing = newPacking()

func newPacking() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(128<<10))
	if err != nil {
		panic(fmt.Sprintf("format: options of the encoder: %v", err))
	}
	e.EncodeAll([]byte{0}, nil) // what it makes, it makes with the first block
	return e
}
