package raftlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// The trailer at the end of the extensions of a stored entry:
//
//	0  4  magic  "CHL1"
//	4  4  sum    CRC-32C of index, term (8 bytes each, little-endian), type (1),
//	             length of data (8), data, extensions without the trailer
const (
	trailerMagic = 0x314c4843 // "CHL1"
	trailerBytes = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(l *raft.Log, extensions []byte) uint32 {
	var head [25]byte
	binary.LittleEndian.PutUint64(head[:], l.Index)
	binary.LittleEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	binary.LittleEndian.PutUint64(head[17:], uint64(len(l.Data)))
	s := crc32.Checksum(head[:], castagnoli)
	s = crc32.Update(s, castagnoli, l.Data)
	return crc32.Update(s, castagnoli, extensions)
}

// seal is a copy of the entry with a trailer; the data is shared.
func seal(l *raft.Log) *raft.Log {
	sealed := *l
	sealed.Extensions = make([]byte, 0, len(l.Extensions)+trailerBytes)
	sealed.Extensions = append(sealed.Extensions, l.Extensions...)
	sealed.Extensions = binary.LittleEndian.AppendUint32(sealed.Extensions, trailerMagic)
	sealed.Extensions = binary.LittleEndian.AppendUint32(sealed.Extensions, sum(l, l.Extensions))
	return &sealed
}

// open checks a stored entry and takes its trailer off.
func open(l *raft.Log, index uint64) error {
	n := len(l.Extensions) - trailerBytes
	if n < 0 || binary.LittleEndian.Uint32(l.Extensions[n:]) != trailerMagic {
		return fmt.Errorf("%w: entry %d has no checksum", ErrCorrupt, index)
	}
	want := binary.LittleEndian.Uint32(l.Extensions[n+4:])
	l.Extensions = l.Extensions[:n:n]
	if n == 0 {
		l.Extensions = nil
	}
	if got := sum(l, l.Extensions); got != want || l.Index != index {
		return fmt.Errorf("%w: entry %d says index %d, checksum %08x, want %08x", ErrCorrupt, index, l.Index, got, want)
	}
	return nil
}
