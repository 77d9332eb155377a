package manifest

import (
	"encoding/binary"
	"fmt"

	"chorale/message"
	"chorale/message/fields"
	"chorale/segments/format"
)

// An edit, and a whole manifest in a snapshot, as bytes (little-endian):
//
//	offset size
//	0      4    sum      CRC-32C of everything behind it
//	4      4    version  1, 2 or 3
//	8      4    removes
//	12     4    adds
//	16     8    plan     version 2 and 3
//	..          hashes   32 each, of the files to remove
//	            metas    85 each: kind 1, first 8, last 8, first time 8,
//	                     last time 8, messages 8, bytes 8, hash 32, sum 4;
//	                     version 2: level 1, topics 4, length of ancestor 2,
//	                     ancestor
//
// An edit is written in the lowest version that can hold it: without a plan and
// without stores that is 1, so that a cluster whose nodes are being upgraded goes on.
// Version 3 is laid out as 2, and says that the edit trims.
const (
	editVersion   = 3
	editHeadBytes = 16
	planBytes     = 8
	metaBytes     = 85
	storeBytes    = 7
	// maxEditFiles bounds the files of an edit: 10 TiB in segments of 10 MiB.
	maxEditFiles = 1 << 20
)

// version is the lowest that can hold the edit.
func (e Edit) version() uint32 {
	if e.Trims {
		return 3
	}
	if e.Plan > 0 {
		return 2
	}
	for _, m := range e.Add {
		if m.Kind != KindSegment {
			return 2
		}
	}
	return 1
}

// Encode returns the versioned encoding of the edit.
func (e Edit) Encode() []byte {
	le := binary.LittleEndian
	version := e.version()
	b := make([]byte, editHeadBytes, editHeadBytes+planBytes+len(e.Remove)*len(Hash{})+len(e.Add)*(metaBytes+storeBytes))
	le.PutUint32(b[4:], version)
	le.PutUint32(b[8:], uint32(len(e.Remove)))
	le.PutUint32(b[12:], uint32(len(e.Add)))
	if version > 1 {
		b = le.AppendUint64(b, e.Plan)
	}
	for _, h := range e.Remove {
		b = append(b, h[:]...)
	}
	for _, m := range e.Add {
		b = append(b, byte(m.Kind))
		for _, v := range [...]uint64{m.First, m.Last, uint64(m.FirstTime), uint64(m.LastTime), m.Messages, uint64(m.Bytes)} {
			b = le.AppendUint64(b, v)
		}
		b = append(b, m.Hash[:]...)
		b = le.AppendUint32(b, m.Sum)
		if version > 1 {
			b = append(b, m.Level)
			b = le.AppendUint32(b, m.Topics)
			b = le.AppendUint16(b, uint16(len(m.Ancestor)))
			b = append(b, m.Ancestor...)
		}
	}
	le.PutUint32(b, message.Sum(b[4:]))
	return b
}

// DecodeEdit is the inverse of Encode. The error wraps format.ErrCorrupt or format.ErrNewer.
func DecodeEdit(b []byte) (Edit, error) {
	le := binary.LittleEndian
	if len(b) < editHeadBytes {
		return Edit{}, fmt.Errorf("%w: edit of %d bytes", format.ErrCorrupt, len(b))
	}
	if got, want := message.Sum(b[4:]), le.Uint32(b); got != want {
		return Edit{}, fmt.Errorf("%w: edit checksum %08x, want %08x", format.ErrCorrupt, got, want)
	}
	d := editDecoder{Reader: fields.Reader{Rest: b}, version: le.Uint32(b[4:])}
	if d.version > editVersion {
		return Edit{}, fmt.Errorf("%w: edit of version %d, this program knows %d", format.ErrNewer, d.version, editVersion)
	}
	e, err := d.edit()
	if err == nil && e.version() != d.version {
		err = fmt.Errorf("it is written in version %d, its lowest is %d", d.version, e.version())
	}
	if err != nil {
		return Edit{}, fmt.Errorf("%w: edit of %d bytes: %w", format.ErrCorrupt, len(b), err)
	}
	return e, nil
}

// editDecoder takes an edit off bytes.
type editDecoder struct {
	fields.Reader
	version uint32
}

func (d *editDecoder) edit() (e Edit, err error) {
	d.Take(8)
	removes, adds := d.Uint32(), d.Uint32()
	if removes > maxEditFiles || adds > maxEditFiles {
		return e, fmt.Errorf("%d removals and %d additions", removes, adds)
	}
	if d.version > 1 {
		e.Plan = d.Uint64()
	}
	e.Trims = d.version == 3
	for range removes {
		if d.Short {
			break
		}
		e.Remove = append(e.Remove, Hash(d.Take(len(Hash{}))))
	}
	for range adds {
		m := d.meta()
		if d.Short {
			break
		}
		if err := m.check(); err != nil {
			return e, err
		}
		e.Add = append(e.Add, m)
	}
	if !d.Done() {
		return e, fmt.Errorf("%d removals and %d additions have another length", removes, adds)
	}
	return e, nil
}

func (d *editDecoder) meta() FileMeta {
	m := FileMeta{
		Kind: Kind(d.Byte()), First: d.Uint64(), Last: d.Uint64(), FirstTime: int64(d.Uint64()), LastTime: int64(d.Uint64()),
		Messages: d.Uint64(), Bytes: int64(d.Uint64()), Hash: Hash(d.Take(len(Hash{}))), Sum: d.Uint32(),
	}
	if d.version > 1 {
		m.Level = d.Byte()
		m.Topics = d.Uint32()
		m.Ancestor = d.Text()
	}
	return m
}
