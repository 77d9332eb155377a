package format

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"

	"chorale/message"

	"github.com/klauspost/compress/zstd"
)

// The blocks of a store hold padded records in the order of the stream, each block
// compressed by itself as one zstd frame. A block takes records as long as they fill
// no more than 64 KiB; a larger record has a block alone.
//
// The block table of a store lists them in their order, each as
//
//	uvarint  stored bytes: those of the frame
//	uvarint  bytes of the records / 8
//	uvarint  seq of the first record - seq of the last record of the block before
//	         (of the first block: - first seq of the file)
//	uvarint  seq of the last record - seq of the first
//	uvarint  records
//	uvarint  time of the first record - time of the last record of the block before
//	         (of the first block: - first time of the file)
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
}

const (
	// StoreBlockTarget bounds the records of a block of more than one: what reading one
	// message of a small topic costs, against how well blocks compress.
	StoreBlockTarget = 64 << 10

	storeBlockFields     = 7
	storeBlockEntryBytes = storeBlockFields + 4 // at least
	// maxStoreBytes bounds the records of a store; it keeps sums from wrapping.
	maxStoreBytes = 1 << 56
)

// maxStored is the most that a frame of so many bytes takes, with room to spare.
func maxStored(raw uint64) uint64 { return raw + raw/64 + 64 }

// appendStoreBlock encodes an entry; before is the block before it, or stands for
// the start of the file.
func appendStoreBlock(b []byte, x, before StoreBlock) []byte {
	for _, v := range [storeBlockFields]uint64{
		uint64(x.Stored), uint64(x.Raw / message.Align), uint64(x.First - before.Last), uint64(x.Last - x.First), uint64(x.Count),
		uint64(x.FirstTime - before.LastTime), uint64(x.LastTime - x.FirstTime),
	} {
		b = binary.AppendUvarint(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, x.Sum)
}

// decodeStoreBlocks checks that the blocks fill their part of the file, hold as many
// messages as it, and ascend.
func decodeStoreBlocks(b []byte, h Header, blockBytes int64) ([]StoreBlock, error) {
	blocks := make([]StoreBlock, 0, len(b)/(2*storeBlockEntryBytes))
	off, messages := int64(HeaderBytes), uint64(0)
	x := StoreBlock{LastTime: h.FirstTime}
	for len(b) > 0 {
		var err error
		if x, b, err = decodeStoreBlock(b, x, h); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrCorrupt, len(blocks), err)
		}
		x.Off = off
		off += int64(x.Stored)
		messages += uint64(x.Count)
		blocks = append(blocks, x)
	}
	if off != HeaderBytes+blockBytes || messages != h.Messages {
		return nil, fmt.Errorf("%w: blocks end at byte %d with %d messages, want %d and %d",
			ErrCorrupt, off, messages, HeaderBytes+blockBytes, h.Messages)
	}
	return blocks, nil
}

// decodeStoreBlock takes one entry off b; before is the entry before it, Count 0 for
// the start of the file.
func decodeStoreBlock(b []byte, before StoreBlock, h Header) (x StoreBlock, rest []byte, err error) {
	var f [storeBlockFields]uint64
	rest, ok := takeUvarints(b, f[:])
	if !ok || len(rest) < 4 {
		return x, nil, fmt.Errorf("it is cut")
	}
	x.Sum = binary.LittleEndian.Uint32(rest)
	raw, count := f[1]*message.Align, f[4]
	if f[1] > message.MaxRecordBytes/message.Align || count == 0 || raw/minStride < count || raw > StoreBlockTarget && count > 1 ||
		f[0] == 0 || f[0] > maxStored(raw) {
		return x, nil, fmt.Errorf("%d records of %d bytes in %d", count, raw, f[0])
	}
	left := h.Last - h.First - uint64(before.Last)
	if f[2] > left || f[2] == 0 && before.Count > 0 || f[3] > left-f[2] || f[3] < count-1 {
		return x, nil, fmt.Errorf("%d records with seqs +%d to +%d more behind +%d of +%d", count, f[2], f[3], before.Last, h.Last-h.First)
	}
	time := uint64(h.LastTime - before.LastTime)
	if f[5] > time || f[6] > time-f[5] {
		return x, nil, fmt.Errorf("it ends behind the file's last time %d", h.LastTime)
	}
	x.Stored, x.Raw, x.Count = uint32(f[0]), uint32(raw), uint32(count)
	x.First = before.Last + uint32(f[2])
	x.Last = x.First + uint32(f[3])
	x.FirstTime = before.LastTime + int64(f[5])
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
	return int64(cap(x.Blocks))*56 + int64(len(x.ids)+len(x.ends))*4 + int64(len(x.table))
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
