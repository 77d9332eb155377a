package format

import (
	"encoding/binary"
	"fmt"

	"chorale/message"
)

// Table names one of a file's tables.
type Table int

// The tables of a file, in their order. The third is that of a segment or that of
// a store.
const (
	BlockTable Table = iota
	TopicTable
	TimeTable
	tableCount
	ListTable = TimeTable
)

// TableName is the name in messages of a table of a kind of file.
func (k Kind) TableName(t Table) string {
	if k == KindStore && t == ListTable {
		return "list table"
	}
	return [tableCount]string{"block table", "topic table", "time table"}[t]
}

// Trailer is the end of a file: it says where the tables lie and vouches for
// them, for the header and, by the block table, for all else.
type Trailer struct {
	Kind      Kind
	Blocks    int64 // bytes of all blocks
	Tables    [tableCount]TableRef
	HeaderSum uint32
	Topics    uint32
	Sum       uint32 // of the trailer itself; set by Encode
}

// TableRef is where a table lies, in bytes, and its checksum.
type TableRef struct {
	Off, Bytes int64
	Sum        uint32
}

// Encode sets Sum and returns the TrailerBytes of the trailer.
func (t *Trailer) Encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, TrailerBytes)
	le.PutUint64(b, uint64(t.Blocks))
	for i, ref := range t.Tables {
		le.PutUint64(b[8+8*i:], uint64(ref.Bytes))
		le.PutUint32(b[32+4*i:], ref.Sum)
	}
	le.PutUint32(b[44:], t.HeaderSum)
	le.PutUint32(b[48:], t.Topics)
	t.Sum = message.Sum(b[:52])
	le.PutUint32(b[52:], t.Sum)
	copy(b[56:], magics[t.Kind].tail)
	return b
}

// DecodeTrailer checks the trailer of a file of a kind and of size bytes.
func DecodeTrailer(b []byte, kind Kind, size int64) (Trailer, error) {
	le := binary.LittleEndian
	if len(b) != TrailerBytes || string(b[56:]) != magics[kind].tail {
		return Trailer{}, fmt.Errorf("%w: it does not end with a trailer: it is cut or was never finished", ErrCorrupt)
	}
	t := Trailer{Kind: kind, Blocks: int64(le.Uint64(b)), HeaderSum: le.Uint32(b[44:]), Topics: le.Uint32(b[48:]), Sum: le.Uint32(b[52:])}
	if got := message.Sum(b[:52]); got != t.Sum {
		return Trailer{}, fmt.Errorf("%w: trailer checksum %08x, want %08x", ErrCorrupt, got, t.Sum)
	}
	left := size - HeaderBytes - TrailerBytes
	if t.Blocks <= 0 || t.Blocks > left {
		return Trailer{}, fmt.Errorf("%w: %d bytes of blocks in a file of %d", ErrCorrupt, t.Blocks, size)
	}
	left -= t.Blocks
	off := HeaderBytes + t.Blocks
	for i := range t.Tables {
		n := int64(le.Uint64(b[8+8*i:]))
		if n <= 0 || n > left {
			return Trailer{}, fmt.Errorf("%w: %s of %d bytes in a file of %d", ErrCorrupt, kind.TableName(Table(i)), n, size)
		}
		t.Tables[i] = TableRef{Off: off, Bytes: n, Sum: le.Uint32(b[32+4*i:])}
		off += n
		left -= n
	}
	if left != 0 {
		return Trailer{}, fmt.Errorf("%w: %d bytes between tables and trailer", ErrCorrupt, left)
	}
	return t, nil
}
