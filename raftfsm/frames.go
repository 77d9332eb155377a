package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"
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
	snapshotMagic   = "CHSNAP\x00\x00"
	snapshotVersion = 2
	frameHeadBytes  = 12
	maxFrameBytes   = 256 << 10
)

// section names the parts of a snapshot, in the order in which they stand.
type section uint32

const (
	sectionState section = iota + 1
	sectionTopics
	sectionProducers
	sectionManifest
	sectionStretches
	sectionEnd
)

func (s section) String() string {
	names := [...]string{"head", "state", "topics", "producers", "manifest", "stretches", "end"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("section %d", uint32(s))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameWriter collects the bytes of a section into frames. The first error sticks.
type frameWriter struct {
	w       io.Writer
	section section
	buf     []byte // frame head and payload so far
	sum     uint32
	err     error
}

func newFrameWriter(w io.Writer, version uint32) *frameWriter {
	fw := &frameWriter{w: w, buf: make([]byte, 0, frameHeadBytes+maxFrameBytes)}
	fw.buf = append(fw.buf, snapshotMagic...)
	fw.buf = binary.LittleEndian.AppendUint32(fw.buf, version)
	fw.sum = crc32.Checksum(fw.buf, castagnoli)
	fw.buf = binary.LittleEndian.AppendUint32(fw.buf, fw.sum)
	fw.write()
	return fw
}

func (w *frameWriter) write() {
	if w.err == nil {
		_, w.err = w.w.Write(w.buf)
	}
	w.buf = w.buf[:frameHeadBytes]
}

// begin ends the current section and starts the next one.
func (w *frameWriter) begin(s section) {
	w.flush()
	w.section = s
}

// end closes the snapshot with a frame without payload.
func (w *frameWriter) end() error {
	w.begin(sectionEnd)
	w.seal()
	return w.err
}

func (w *frameWriter) flush() {
	if len(w.buf) > frameHeadBytes {
		w.seal()
	}
}

func (w *frameWriter) seal() {
	binary.LittleEndian.PutUint32(w.buf, uint32(w.section))
	binary.LittleEndian.PutUint32(w.buf[4:], uint32(len(w.buf)-frameHeadBytes))
	w.sum = crc32.Update(w.sum, castagnoli, w.buf[:8])
	w.sum = crc32.Update(w.sum, castagnoli, w.buf[frameHeadBytes:])
	binary.LittleEndian.PutUint32(w.buf[8:], w.sum)
	w.write()
}

func (w *frameWriter) bytes(b []byte) {
	for len(b) > 0 && w.err == nil {
		n := min(len(b), cap(w.buf)-len(w.buf))
		w.buf = append(w.buf, b[:n]...)
		b = b[n:]
		if len(w.buf) == cap(w.buf) {
			w.seal()
		}
	}
}

func (w *frameWriter) string(s string) {
	w.bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

func (w *frameWriter) uvarint(v uint64) {
	var b [binary.MaxVarintLen64]byte
	w.bytes(b[:binary.PutUvarint(b[:], v)])
}

// frameReader reads what a frameWriter wrote. It holds one frame. The first error
// sticks, and after it every read gives zeros: the reader of a section checks err
// where it would otherwise loop or allocate.
type frameReader struct {
	r       io.Reader
	version uint32
	section section
	payload []byte // not yet read part of the frame
	buf     []byte
	sum     uint32
	offset  int64 // of the next frame
	err     error
}

func newFrameReader(r io.Reader) *frameReader {
	fr := &frameReader{r: r, buf: make([]byte, frameHeadBytes+maxFrameBytes)}
	head := fr.buf[:len(snapshotMagic)+8]
	if _, err := io.ReadFull(r, head); err != nil {
		fr.fail("head is cut: %w", err)
		return fr
	}
	fr.offset = int64(len(head))
	fr.sum = crc32.Checksum(head[:12], castagnoli)
	fr.version = binary.LittleEndian.Uint32(head[8:])
	switch {
	case string(head[:8]) != snapshotMagic:
		fr.fail("starts with %q, want %q", head[:8], snapshotMagic)
	case fr.sum != binary.LittleEndian.Uint32(head[12:]):
		fr.fail("checksum of the head does not match")
	case fr.version > snapshotVersion:
		fr.err = fmt.Errorf("%w: snapshot has version %d, known up to %d", ErrNewer, fr.version, snapshotVersion)
	case fr.version == 0:
		fr.fail("version is 0")
	}
	return fr
}

// fail notes damage at the current frame.
func (r *frameReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: snapshot, %v, before byte %d: %w", ErrCorrupt, r.section, r.offset, fmt.Errorf(format, args...))
	}
}

// begin expects the end of the current section and the start of the next one.
func (r *frameReader) begin(s section) {
	if len(r.payload) > 0 {
		r.fail("%d bytes too many", len(r.payload))
	}
	r.section = s
}

// end expects the last frame and nothing behind it.
func (r *frameReader) end() error {
	r.begin(sectionEnd)
	if r.next(); r.err == nil {
		if n, err := io.ReadFull(r.r, r.buf[:1]); n != 0 {
			r.fail("bytes behind the end")
		} else if !errors.Is(err, io.EOF) {
			r.fail("%w", err)
		}
	}
	return r.err
}

// next reads one frame of the current section.
func (r *frameReader) next() {
	if r.err != nil {
		return
	}
	head := r.buf[:frameHeadBytes]
	if _, err := io.ReadFull(r.r, head); err != nil {
		r.fail("frame is cut: %w", err)
		return
	}
	s, size := section(binary.LittleEndian.Uint32(head)), int(binary.LittleEndian.Uint32(head[4:]))
	if s != r.section {
		r.fail("a frame of %v stands here", s)
		return
	}
	if size > maxFrameBytes || (size == 0) != (s == sectionEnd) {
		r.fail("frame of %d bytes", size)
		return
	}
	payload := r.buf[frameHeadBytes : frameHeadBytes+size]
	if _, err := io.ReadFull(r.r, payload); err != nil {
		r.fail("frame is cut: %w", err)
		return
	}
	r.sum = crc32.Update(r.sum, castagnoli, head[:8])
	r.sum = crc32.Update(r.sum, castagnoli, payload)
	if r.sum != binary.LittleEndian.Uint32(head[8:]) {
		r.fail("checksum of the frame does not match")
		return
	}
	r.payload = payload
	r.offset += int64(frameHeadBytes + size)
}

// full fills b.
func (r *frameReader) full(b []byte) {
	for len(b) > 0 {
		if len(r.payload) == 0 {
			if r.next(); r.err != nil {
				clear(b)
				return
			}
		}
		n := copy(b, r.payload)
		b, r.payload = b[n:], r.payload[n:]
	}
}

// uvarint takes the shortest form only: one state has one snapshot.
func (r *frameReader) uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if len(r.payload) == 0 {
			if r.next(); r.err != nil {
				return 0
			}
		}
		b := r.payload[0]
		r.payload = r.payload[1:]
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			if b == 0 && shift > 0 || shift == 63 && b > 1 {
				r.fail("number is not in its shortest form")
				return 0
			}
			return v
		}
	}
	r.fail("number does not end")
	return 0
}

// upTo is a uvarint that may not be more than limit.
func (r *frameReader) upTo(limit uint64) uint64 {
	v := r.uvarint()
	if v > limit {
		r.fail("number %d where at most %d is possible", v, limit)
		return 0
	}
	return v
}
