package format

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"chorale/message"
)

// Block is an entry of the block table.
type Block struct {
	Off         int64 // in the file
	Bytes       uint32
	Partition   uint32 // id
	First, Last uint32 // seqs of its records, relative to the file's first
	Count       uint32 // of its records
	Sum         uint32
}

// appendBlock encodes an entry.
func appendBlock(b []byte, x Block) []byte {
	for _, v := range [...]uint32{x.Partition, x.Bytes, x.First, x.Last, x.Count, x.Sum} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// decodeBlocks checks that the blocks fill their part of the file, hold as many
// messages as the file, and ascend within a partition.
func decodeBlocks(b []byte, h Header, blockBytes int64) ([]Block, error) {
	if len(b) == 0 || len(b)%blockEntryBytes != 0 {
		return nil, fmt.Errorf("%w: block table of %d bytes", ErrCorrupt, len(b))
	}
	le := binary.LittleEndian
	blocks := make([]Block, 0, len(b)/blockEntryBytes)
	off, messages := int64(HeaderBytes), uint64(0)
	for ; len(b) > 0; b = b[blockEntryBytes:] {
		x := Block{
			Off: off, Partition: le.Uint32(b), Bytes: le.Uint32(b[4:]), First: le.Uint32(b[8:]),
			Last: le.Uint32(b[12:]), Count: le.Uint32(b[16:]), Sum: le.Uint32(b[20:]),
		}
		if err := x.check(uint32(h.Last - h.First)); err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", ErrCorrupt, len(blocks), err)
		}
		if n := len(blocks); n > 0 && blocks[n-1].Partition == x.Partition && blocks[n-1].Last >= x.First {
			return nil, fmt.Errorf("%w: block %d starts at +%d, the one before ends at +%d", ErrCorrupt, n, x.First, blocks[n-1].Last)
		}
		off += int64(x.Bytes)
		messages += uint64(x.Count)
		blocks = append(blocks, x)
	}
	if off != HeaderBytes+blockBytes || messages != h.Messages() {
		return nil, fmt.Errorf("%w: blocks end at byte %d with %d messages, want %d and %d",
			ErrCorrupt, off, messages, HeaderBytes+blockBytes, h.Messages())
	}
	return blocks, nil
}

// check reports an entry that no file whose last seq is first + span can have.
func (x Block) check(span uint32) error {
	least := uint64(x.Count) * (message.HeadBytes + message.Align)
	if x.Bytes%message.Align != 0 || x.Bytes > BlockTarget+message.MaxRecordBytes || x.Count == 0 || uint64(x.Bytes) < least {
		return fmt.Errorf("%d bytes with %d messages", x.Bytes, x.Count)
	}
	if x.Last > span || x.First > x.Last || x.Last-x.First < x.Count-1 {
		return fmt.Errorf("%d messages with seqs +%d to +%d of +%d", x.Count, x.First, x.Last, span)
	}
	return nil
}

// Index is the block table with a way from partition to blocks. Immutable.
type Index struct {
	Blocks     []Block
	partitions []span // ascending by id
}

// span says which blocks belong to a partition.
type span struct{ id, from, to uint32 }

// newIndex groups the blocks; a partition in two places is damage.
func newIndex(blocks []Block) (*Index, error) {
	x := &Index{Blocks: blocks}
	for i, b := range blocks {
		if n := len(x.partitions); n > 0 && x.partitions[n-1].id == b.Partition {
			x.partitions[n-1].to++
			continue
		}
		x.partitions = append(x.partitions, span{b.Partition, uint32(i), uint32(i + 1)})
	}
	slices.SortFunc(x.partitions, func(a, b span) int { return cmp.Compare(a.id, b.id) })
	for i := 1; i < len(x.partitions); i++ {
		if x.partitions[i].id == x.partitions[i-1].id {
			return nil, fmt.Errorf("%w: the blocks of partition %d stand apart", ErrCorrupt, x.partitions[i].id)
		}
	}
	return x, nil
}

// Partitions is the number of partitions in the file.
func (x *Index) Partitions() int { return len(x.partitions) }

// Find returns the blocks of a partition, none if the file has none of it.
func (x *Index) Find(id uint32) []Block {
	i, ok := slices.BinarySearchFunc(x.partitions, id, func(p span, id uint32) int { return cmp.Compare(p.id, id) })
	if !ok {
		return nil
	}
	return x.Blocks[x.partitions[i].from:x.partitions[i].to]
}
