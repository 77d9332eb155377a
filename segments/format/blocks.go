package format

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"chorale/message"
)

// The block table of a segment lists the blocks in the order of the file, each as
//
//	uvarint  partition id + 1; 0 for that of the block before
//	uvarint  bytes / 8
//	uvarint  seq of the first record - first seq of the file; of a partition's
//	         further blocks: - seq of the last record of the block before
//	uvarint  seq of the last record - seq of the first
//	uvarint  records
//	4 bytes  CRC-32C of the block

// Block is an entry of the block table.
type Block struct {
	Off         int64 // in the file
	Bytes       uint32
	Partition   uint32 // id
	First, Last uint32 // seqs of its records, relative to the file's first
	Count       uint32 // of its records
	Sum         uint32
}

const (
	blockFields     = 5
	blockEntryBytes = blockFields + 4 // at least
	minStride       = message.HeadBytes + message.Align
)

// appendBlock encodes an entry; before is the block before it, Count 0 for none.
func appendBlock(b []byte, x, before Block) []byte {
	partition, start := uint64(x.Partition)+1, uint32(0)
	if before.Count > 0 && before.Partition == x.Partition {
		partition, start = 0, before.Last
	}
	for _, v := range [blockFields]uint64{partition, uint64(x.Bytes / message.Align), uint64(x.First - start), uint64(x.Last - x.First), uint64(x.Count)} {
		b = binary.AppendUvarint(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, x.Sum)
}

// decodeBlocks checks that the blocks fill their part of the file, hold as many
// messages as the file, and ascend within a partition.
func decodeBlocks(b []byte, h Header, blockBytes int64) ([]Block, error) {
	blocks := make([]Block, 0, len(b)/(2*blockEntryBytes))
	off, messages := int64(HeaderBytes), uint64(0)
	var x Block
	for len(b) > 0 {
		var err error
		if x, b, err = decodeBlock(b, x, h.Last-h.First); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrCorrupt, len(blocks), err)
		}
		x.Off = off
		off += int64(x.Bytes)
		messages += uint64(x.Count)
		blocks = append(blocks, x)
	}
	if off != HeaderBytes+blockBytes || messages != h.Messages {
		return nil, fmt.Errorf("%w: blocks end at byte %d with %d messages, want %d and %d",
			ErrCorrupt, off, messages, HeaderBytes+blockBytes, h.Messages)
	}
	return blocks, nil
}

// decodeBlock takes one entry off b; before is the entry before it, Count 0 for
// none; span is the last seq, relative.
func decodeBlock(b []byte, before Block, span uint64) (x Block, rest []byte, err error) {
	var f [blockFields]uint64
	rest, ok := takeUvarints(b, f[:])
	if !ok || len(rest) < 4 {
		return x, nil, fmt.Errorf("it is cut")
	}
	x.Sum = binary.LittleEndian.Uint32(rest)
	if f[0] > 1<<32 || f[0] == 0 && before.Count == 0 || before.Count > 0 && f[0] == uint64(before.Partition)+1 {
		return x, nil, fmt.Errorf("partition %d behind partition %d", int64(f[0])-1, before.Partition)
	}
	start := uint64(0)
	if x.Partition = uint32(f[0] - 1); f[0] == 0 {
		x.Partition, start = before.Partition, uint64(before.Last)
		if f[2] == 0 {
			return x, nil, fmt.Errorf("it starts with the last seq of the block before")
		}
	}
	if f[1] > (BlockTarget+message.MaxRecordBytes)/message.Align || f[4] == 0 || f[1]*message.Align < f[4]*minStride || f[4] > math.MaxUint32 {
		return x, nil, fmt.Errorf("%d bytes with %d messages", f[1]*message.Align, f[4])
	}
	if f[2] > span-start || f[3] > span-start-f[2] || f[3] < f[4]-1 {
		return x, nil, fmt.Errorf("%d messages with seqs +%d+%d to +%d more of +%d", f[4], start, f[2], f[3], span)
	}
	x.Bytes, x.Count = uint32(f[1]*message.Align), uint32(f[4])
	x.First = uint32(start + f[2])
	x.Last = x.First + uint32(f[3])
	return x, rest[4:], nil
}

// Index is the block table with a way from partition to blocks. Immutable.
type Index struct {
	Blocks     []Block
	partitions []Span // ascending by id
}

// Span says which blocks belong to a partition: From up to, but without, To.
type Span struct{ ID, From, To uint32 }

// newIndex groups the blocks; a partition in two places is damage.
func newIndex(blocks []Block) (*Index, error) {
	x := &Index{Blocks: blocks}
	for i, b := range blocks {
		if n := len(x.partitions); n > 0 && x.partitions[n-1].ID == b.Partition {
			x.partitions[n-1].To++
			continue
		}
		x.partitions = append(x.partitions, Span{b.Partition, uint32(i), uint32(i + 1)})
	}
	slices.SortFunc(x.partitions, func(a, b Span) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(x.partitions); i++ {
		if x.partitions[i].ID == x.partitions[i-1].ID {
			return nil, fmt.Errorf("%w: the blocks of partition %d stand apart", ErrCorrupt, x.partitions[i].ID)
		}
	}
	return x, nil
}

// Partitions is the number of partitions in the file.
func (x *Index) Partitions() int { return len(x.partitions) }

// Find returns the blocks of a partition, none if the file has none of it.
func (x *Index) Find(id uint32) Span {
	i, ok := slices.BinarySearchFunc(x.partitions, id, func(p Span, id uint32) int { return cmp.Compare(p.ID, id) })
	if !ok {
		return Span{ID: id}
	}
	return x.partitions[i]
}
