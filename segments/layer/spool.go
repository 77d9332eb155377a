package layer

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
)

// spool keeps blocks in the order in which they come: in memory as far as that is
// allowed, the rest in a temporary file.
type spool struct {
	fs   disk.FS
	path string
	left int // bytes of memory

	chunks  [][]byte
	file    disk.File // written, then read; nil while all is in memory
	writer  *bufio.Writer
	written int64
	buf     []byte
}

// place is where a block lies.
type place struct {
	off   int64
	bytes int32
	chunk int32 // inFile for the file
	sum   uint32
}

const (
	inFile = -1
	// Chunks of memory grow from the first size to the last, each twice the one before.
	firstChunk, lastChunk = 64 << 10, 1 << 20
)

func newSpool(fsys disk.FS, path string, memory int) *spool {
	return &spool{fs: fsys, path: path, left: memory}
}

// put copies a block.
func (s *spool) put(b []byte) (place, error) {
	p := place{bytes: int32(len(b)), chunk: int32(len(s.chunks) - 1), sum: message.Sum(b)}
	if p.chunk >= 0 && len(s.chunks[p.chunk])+len(b) <= cap(s.chunks[p.chunk]) {
		c := &s.chunks[p.chunk]
		p.off = int64(len(*c))
		*c = append(*c, b...)
		return p, nil
	}
	if n := max(min(firstChunk<<min(len(s.chunks), 16), lastChunk), len(b)); n <= s.left {
		s.left -= n
		s.chunks = append(s.chunks, append(make([]byte, 0, n), b...))
		p.chunk++
		return p, nil
	}
	if s.file == nil {
		f, err := s.fs.Create(s.path)
		if err != nil {
			return p, err
		}
		s.file, s.writer = f, bufio.NewWriterSize(f, writeBuffer)
	}
	p.chunk, p.off = inFile, s.written
	s.written += int64(len(b))
	_, err := s.writer.Write(b)
	return p, err
}

// end is called once, when all is put.
func (s *spool) end() error {
	if s.file == nil {
		return nil
	}
	if err := s.writer.Flush(); err != nil {
		return err
	}
	err := s.file.Close()
	if s.file = nil; err != nil {
		return err
	}
	s.file, err = s.fs.Open(s.path)
	return err
}

// each hands out blocks one by one. What the disk does not give back as it was is an
// error: a store is never made of it.
func (s *spool) each(places []place, f func(b []byte)) error {
	for _, p := range places {
		if p.chunk != inFile {
			f(s.chunks[p.chunk][p.off : p.off+int64(p.bytes)])
			continue
		}
		if int(p.bytes) > len(s.buf) {
			s.buf = make([]byte, 2*p.bytes)
		}
		b := s.buf[:p.bytes]
		if n, err := s.file.ReadAt(b, p.off); n < len(b) {
			return fmt.Errorf("read %s at %d: %d of %d bytes: %w", s.path, p.off, n, len(b), cut(err))
		}
		if got := message.Sum(b); got != p.sum {
			return fmt.Errorf("%s at %d: %w: checksum %08x, want %08x", s.path, p.off, format.ErrCorrupt, got, p.sum)
		}
		f(b)
	}
	return nil
}

// cut is the cause of a short read; never io.EOF, which is how a subscription ends well.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// close gives the file up; Open of the history removes what cannot be removed here.
func (s *spool) close() {
	if s.writer != nil {
		if s.file != nil {
			_ = s.file.Close()
		}
		_ = s.fs.Remove(s.path)
	}
	s.chunks, s.file, s.writer = nil, nil, nil
}
