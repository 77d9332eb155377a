// Package frames is the outer form of a snapshot: sections, cut into frames with
// checksums. What the sections hold, package raftfsm says.
package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"

	"chorale/raftfsm/level"
)

// A snapshot is a head and frames. A section of it is the payloads of consecutive
// frames of one kind; what it holds may straddle frames. The checksum of a frame
// goes on from the one before it, from the head's on, so that each frame vouches
// for everything in front of it: no frame can be lost, repeated, swapped or taken
// from another snapshot.
//
//	head   0  8  magic    "CHSNAP" and two zeros
//	       8  4  version
//	       12 4  sum      CRC-32C of bytes 0..12
//	frame  0  4  section
//	       4  4  size     of the payload, at most 256 KiB; 0 only in the last frame
//	       8  4  sum      CRC-32C of bytes 0..8 and the payload, going on from the
//	                      sum before
//	       12    payload
const (
	magic = "CHSNAP\x00\x00"
	// HeadBytes is the size of the head of a frame, MaxBytes bounds its payload.
	HeadBytes = 12
	MaxBytes  = 256 << 10
)

var (
	// ErrCorrupt marks bytes that are not what a node wrote.
	ErrCorrupt = errors.New("damaged replicated state")
	// ErrNewer marks what a newer version wrote.
	ErrNewer = level.ErrNewer
)

// Section names the parts of a snapshot, in the order in which they stand.
type Section uint32

// The sections.
const (
	State Section = iota + 1
	Topics
	Producers
	Manifest
	Stretches
	end
)

// String is the name in messages.
func (s Section) String() string {
	names := [...]string{"head", "state", "topics", "producers", "manifest", "stretches", "end"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("section %d", uint32(s))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer collects the bytes of a section into frames. The first error sticks.
type Writer struct {
	w       io.Writer
	section Section
	buf     []byte // frame head and payload so far
	sum     uint32
	err     error
}

// NewWriter writes the head.
func NewWriter(w io.Writer, version uint32) *Writer {
	fw := &Writer{w: w, buf: make([]byte, 0, HeadBytes+MaxBytes)}
	fw.buf = append(fw.buf, magic...)
	fw.buf = binary.LittleEndian.AppendUint32(fw.buf, version)
	fw.sum = crc32.Checksum(fw.buf, castagnoli)
	fw.buf = binary.LittleEndian.AppendUint32(fw.buf, fw.sum)
	fw.write()
	return fw
}

func (w *Writer) write() {
	if w.err == nil {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:HeadBytes]
}

// Begin ends the current section and starts the next one.
func (w *Writer) Begin(s Section) {
	w.flush()
	w.section = s
}

// End closes the snapshot with a frame without payload.
func (w *Writer) End() error {
	w.Begin(end)
	w.seal()
	return w.err
}

func (w *Writer) flush() {
	if len(w.buf) > HeadBytes {
		w.seal()
	}
}

func (w *Writer) seal() {
	binary.LittleEndian.PutUint32(w.buf, uint32(w.section))
	binary.LittleEndian.PutUint32(w.buf[4:], uint32(len(w.buf)-HeadBytes))
	w.sum = crc32.Update(w.sum, castagnoli, w.buf[:8])
	w.sum = crc32.Update(w.sum, castagnoli, w.buf[HeadBytes:])
	binary.LittleEndian.PutUint32(w.buf[8:], w.sum)
	w.write()
}

// Bytes appends to the section.
func (w *Writer) Bytes(b []byte) {
	for len(b) > 0 && w.err == nil {
		n := min(len(b), cap(w.buf)-len(w.buf))
		w.buf = append(w.buf, b[:n]...)
		b = b[n:]
		if len(w.buf) == cap(w.buf) {
			w.seal()
		}
	}
}

// String appends to the section.
func (w *Writer) String(s string) {
	w.Bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// Uvarint appends a number in its shortest form.
func (w *Writer) Uvarint(v uint64) {
	var b [binary.MaxVarintLen64]byte
	w.Bytes(b[:binary.PutUvarint(b[:], v)])
}

// Reader reads what a Writer wrote. It holds one frame. The first error
// sticks, and after it every read gives zeros: the reader of a section checks Err
// where it would otherwise loop or allocate.
type Reader struct {
	r       io.Reader
	Version uint32 // of the head
	section Section
	payload []byte // not yet read part of the frame
	buf     []byte
	sum     uint32
	offset  int64 // of the next frame
	Err     error // the first one
}

// NewReader reads the head of a snapshot, which may have that version or one before it.
func NewReader(r io.Reader, known uint32) *Reader {
	fr := &Reader{r: r, buf: make([]byte, HeadBytes+MaxBytes)}
	head := fr.buf[:len(magic)+8]
	if _, err := io.ReadFull(r, head); err != nil {
		fr.Fail("head is cut: %w", err)
		return fr
	}
	fr.offset = int64(len(head))
	fr.sum = crc32.Checksum(head[:12], castagnoli)
	fr.Version = binary.LittleEndian.Uint32(head[8:])
	switch {
	case string(head[:8]) != magic:
		fr.Fail("starts with %q, want %q", head[:8], magic)
	case fr.sum != binary.LittleEndian.Uint32(head[12:]):
		fr.Fail("checksum of the head does not match")
	case fr.Version > known:
		fr.Err = fmt.Errorf("%w: snapshot has version %d, known up to %d", ErrNewer, fr.Version, known)
	case fr.Version == 0:
		fr.Fail("version is 0")
	}
	return fr
}

// Fail notes damage at the current frame.
func (r *Reader) Fail(format string, args ...any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("%w: snapshot, %v, before byte %d: %w", ErrCorrupt, r.section, r.offset, fmt.Errorf(format, args...))
	}
}

// Begin expects the end of the current section and the start of the next one.
func (r *Reader) Begin(s Section) {
	if len(r.payload) > 0 {
		r.Fail("%d bytes too many", len(r.payload))
	}
	r.section = s
}

// End expects the last frame and nothing behind it.
func (r *Reader) End() error {
	r.Begin(end)
	if r.next(); r.Err == nil {
		if n, err := io.ReadFull(r.r, r.buf[:1]); n != 0 {
			r.Fail("bytes behind the end")
		} else if !errors.Is(err, io.EOF) {
			r.Fail("%w", err)
		}
	}
	return r.Err
}

// next reads one frame of the current section.
func (r *Reader) next() {
	if r.Err != nil {
		return
	}
	head := r.buf[:HeadBytes]
	if _, err := io.ReadFull(r.r, head); err != nil {
		r.Fail("frame is cut: %w", err)
		return
	}
	s, size := Section(binary.LittleEndian.Uint32(head)), int(binary.LittleEndian.Uint32(head[4:]))
	if s != r.section {
		r.Fail("a frame of %v stands here", s)
		return
	}
	if size > MaxBytes || (size == 0) != (s == end) {
		r.Fail("frame of %d bytes", size)
		return
	}
	payload := r.buf[HeadBytes : HeadBytes+size]
	if _, err := io.ReadFull(r.r, payload); err != nil {
		r.Fail("frame is cut: %w", err)
		return
	}
	r.sum = crc32.Update(r.sum, castagnoli, head[:8])
	r.sum = crc32.Update(r.sum, castagnoli, payload)
	if r.sum != binary.LittleEndian.Uint32(head[8:]) {
		r.Fail("checksum of the frame does not match")
		return
	}
	r.payload = payload
	r.offset += int64(HeadBytes + size)
}

// Full fills b.
func (r *Reader) Full(b []byte) {
	for len(b) > 0 {
		if len(r.payload) == 0 {
			if r.next(); r.Err != nil {
				clear(b)
				return
			}
		}
		n := copy(b, r.payload)
		b, r.payload = b[n:], r.payload[n:]
	}
}

// Uvarint takes the shortest form only: one state has one snapshot.
func (r *Reader) Uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if len(r.payload) == 0 {
			if r.next(); r.Err != nil {
				return 0
			}
		}
		b := r.payload[0]
		r.payload = r.payload[1:]
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			if b == 0 && shift > 0 || shift == 63 && b > 1 {
				r.Fail("number is not in its shortest form")
				return 0
			}
			return v
		}
	}
	r.Fail("number does not end")
	return 0
}

// UpTo is a Uvarint that may not be more than limit.
func (r *Reader) UpTo(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.Fail("number %d where at most %d is possible", v, limit)
		return 0
	}
	return v
}
