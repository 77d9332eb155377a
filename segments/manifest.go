package segments

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"

	"chorale/message"
	"chorale/segments/format"
)

// Hash is the SHA-256 of a whole file.
type Hash [32]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Kind tells the kinds of data files apart. The values are part of the log.
type Kind uint8

// KindSegment is a contiguous stretch of the stream with all its topics.
const KindSegment Kind = 1

// FileMeta describes one immutable data file in the manifest.
type FileMeta struct {
	Kind        Kind
	First, Last uint64 // seqs, inclusive
	FirstTime   int64  // of message First; ns
	LastTime    int64
	Messages    uint64
	Bytes       int64 // of the file
	Hash        Hash
	// Sum is the checksum of the file's trailer, which vouches for all that is
	// before it: a file can be told from another without reading it.
	Sum uint32
}

// Name is the name of the file in its folder: it says the range of seqs and the
// first bytes of the hash, and sorts by position.
func (m FileMeta) Name() string {
	return fmt.Sprintf("%020d-%020d-%x%s", m.First, m.Last, m.Hash[:8], segmentSuffix)
}

// Edit changes the manifest: it removes files by hash and adds others. It is data
// in the Raft log.
type Edit struct {
	Remove []Hash
	Add    []FileMeta
}

// An edit, and a whole manifest in a snapshot, as bytes (little-endian):
//
//	offset size
//	0      4    sum      CRC-32C of everything behind it
//	4      4    version  1
//	8      4    removes
//	12     4    adds
//	16          hashes   32 each, of the files to remove
//	            metas    85 each: kind 1, first 8, last 8, first time 8,
//	                     last time 8, messages 8, bytes 8, hash 32, sum 4
const (
	editVersion   = 1
	editHeadBytes = 16
	metaBytes     = 85
	// maxEditFiles bounds the files of an edit: 10 TiB in segments of 10 MiB.
	maxEditFiles = 1 << 20
)

// Encode returns the versioned encoding of the edit.
func (e Edit) Encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, editHeadBytes, editHeadBytes+len(e.Remove)*len(Hash{})+len(e.Add)*metaBytes)
	le.PutUint32(b[4:], editVersion)
	le.PutUint32(b[8:], uint32(len(e.Remove)))
	le.PutUint32(b[12:], uint32(len(e.Add)))
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
	}
	le.PutUint32(b, message.Sum(b[4:]))
	return b
}

// DecodeEdit is the inverse of Encode. The error wraps ErrCorrupt or ErrNewer.
func DecodeEdit(b []byte) (Edit, error) {
	le := binary.LittleEndian
	if len(b) < editHeadBytes {
		return Edit{}, fmt.Errorf("%w: edit of %d bytes", ErrCorrupt, len(b))
	}
	if got, want := message.Sum(b[4:]), le.Uint32(b); got != want {
		return Edit{}, fmt.Errorf("%w: edit checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	if v := le.Uint32(b[4:]); v != editVersion {
		return Edit{}, fmt.Errorf("%w: edit of version %d, this program knows %d", ErrNewer, v, editVersion)
	}
	removes, adds := int(le.Uint32(b[8:])), int(le.Uint32(b[12:]))
	if removes > maxEditFiles || adds > maxEditFiles || len(b) != editHeadBytes+removes*len(Hash{})+adds*metaBytes {
		return Edit{}, fmt.Errorf("%w: edit of %d bytes for %d removals and %d additions", ErrCorrupt, len(b), removes, adds)
	}
	var e Edit
	b = b[editHeadBytes:]
	for range removes {
		e.Remove = append(e.Remove, Hash(b))
		b = b[len(Hash{}):]
	}
	for range adds {
		m, err := decodeMeta(b[:metaBytes])
		if err != nil {
			return Edit{}, err
		}
		e.Add = append(e.Add, m)
		b = b[metaBytes:]
	}
	return e, nil
}

func decodeMeta(b []byte) (FileMeta, error) {
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(b[1+8*i:]) }
	m := FileMeta{
		Kind: Kind(b[0]), First: u(0), Last: u(1), FirstTime: int64(u(2)), LastTime: int64(u(3)),
		Messages: u(4), Bytes: int64(u(5)), Hash: Hash(b[49:]), Sum: binary.LittleEndian.Uint32(b[81:]),
	}
	if err := m.check(); err != nil {
		return m, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return m, nil
}

// check reports a description that no file can have.
func (m FileMeta) check() error {
	switch {
	case m.Kind != KindSegment:
		return fmt.Errorf("file of kind %d: %d is known", m.Kind, KindSegment)
	case m.First == 0 || m.Last < m.First || m.Last-m.First >= format.MaxMessages:
		return fmt.Errorf("file of seqs %d to %d", m.First, m.Last)
	case m.Messages != m.Last-m.First+1:
		return fmt.Errorf("segment of seqs %d to %d with %d messages", m.First, m.Last, m.Messages)
	case m.LastTime < m.FirstTime:
		return fmt.Errorf("file %d to %d ends at time %d, before its start %d", m.First, m.Last, m.LastTime, m.FirstTime)
	case m.Bytes < format.HeaderBytes+format.TrailerBytes:
		return fmt.Errorf("file %d to %d of %d bytes", m.First, m.Last, m.Bytes)
	}
	return nil
}

// Manifest lists the live files, ascending by First. Immutable.
type Manifest struct{ Files []FileMeta }

// Encode returns the versioned encoding of the manifest: an edit that adds all.
func (m Manifest) Encode() []byte { return Edit{Add: m.Files}.Encode() }

// DecodeManifest is the inverse of Encode. The error wraps ErrCorrupt or ErrNewer.
func DecodeManifest(b []byte) (Manifest, error) {
	e, err := DecodeEdit(b)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Files: e.Add}
	if len(e.Remove) > 0 {
		return Manifest{}, fmt.Errorf("%w: manifest with removals", ErrCorrupt)
	}
	if err := m.check(); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return m, nil
}

// End is the last seq of the files, 0 without files.
func (m Manifest) End() uint64 {
	if len(m.Files) == 0 {
		return 0
	}
	return m.Files[len(m.Files)-1].Last
}

// Oldest is the first seq of the files, 1 without files.
func (m Manifest) Oldest() uint64 {
	if len(m.Files) == 0 {
		return 1
	}
	return m.Files[0].First
}

// find returns the index of the file that holds seq, or len(m.Files).
func (m Manifest) find(seq uint64) int {
	i := sort.Search(len(m.Files), func(i int) bool { return m.Files[i].Last >= seq })
	if i < len(m.Files) && m.Files[i].First > seq {
		return len(m.Files)
	}
	return i
}

// Apply returns the manifest after the edit, or why the edit is refused: it names
// a file that is not there, leaves a hole or an overlap, or moves the end back.
// Only the oldest files can go without others in their place. Pure.
func (m Manifest) Apply(e Edit) (Manifest, error) {
	gone := make(map[Hash]bool, len(e.Remove))
	for _, h := range e.Remove {
		if !slices.ContainsFunc(m.Files, func(f FileMeta) bool { return f.Hash == h }) || gone[h] {
			return m, fmt.Errorf("the edit removes file %s, which the manifest does not hold", h)
		}
		gone[h] = true
	}
	next := Manifest{Files: make([]FileMeta, 0, len(m.Files)+len(e.Add))}
	for _, f := range m.Files {
		if !gone[f.Hash] {
			next.Files = append(next.Files, f)
		}
	}
	next.Files = append(next.Files, e.Add...)
	slices.SortFunc(next.Files, func(a, b FileMeta) int { return cmp.Compare(a.First, b.First) })
	if err := next.check(); err != nil {
		return m, err
	}
	if next.End() < m.End() {
		return m, fmt.Errorf("the edit moves the end of the files from %d to %d", m.End(), next.End())
	}
	if next.Oldest() < m.Oldest() || len(m.Files) == 0 && next.Oldest() != 1 {
		return m, fmt.Errorf("the edit starts the files at %d, they start at %d", next.Oldest(), m.Oldest())
	}
	return next, nil
}

func (m Manifest) check() error {
	for i, f := range m.Files {
		if err := f.check(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		if before := m.Files[i-1]; f.First != before.Last+1 {
			return fmt.Errorf("file %d to %d does not follow on file %d to %d", f.First, f.Last, before.First, before.Last)
		} else if f.FirstTime < before.LastTime {
			return fmt.Errorf("file %d to %d starts at time %d, before the end of the file before it, %d", f.First, f.Last, f.FirstTime, before.LastTime)
		}
	}
	return nil
}
