package format

import (
	"errors"
	"fmt"
	"io"

	"chorale/message"
)

// File is what the ends of a data file say. It holds no handle: the methods read
// through the one that they are given. Every error names file, place and cause;
// what the disk cannot read is damage too, for it needs the same repair. Safe for
// concurrent use.
type File struct {
	Path    string
	Size    int64
	Header  Header
	Trailer Trailer
}

// Open reads and checks header and trailer of a file of size bytes.
func Open(r io.ReaderAt, size int64, path string) (*File, error) {
	f := &File{Path: path, Size: size}
	b := make([]byte, min(size, HeaderBytes))
	err := f.readAt(r, b, 0)
	if err != nil {
		return nil, err
	}
	if f.Header, err = DecodeHeader(b); err != nil {
		return nil, f.Damage(0, err)
	}
	sum := message.Sum(b[:60])
	off := max(HeaderBytes, size-TrailerBytes)
	b = make([]byte, size-off)
	if err := f.readAt(r, b, off); err != nil {
		return nil, err
	}
	f.Trailer, err = DecodeTrailer(b, f.Header.Kind, size)
	if err == nil && f.Trailer.HeaderSum != sum {
		err = fmt.Errorf("header checksum %08x, the trailer says %08x", sum, f.Trailer.HeaderSum)
	}
	if err != nil {
		return nil, f.Damage(off, err)
	}
	return f, nil
}

// Damage says where a file is damaged: an error that wraps ErrCorrupt, unless the
// cause is ErrForeign or ErrNewer.
func (f *File) Damage(off int64, cause error) error {
	if errors.Is(cause, ErrCorrupt) || errors.Is(cause, ErrForeign) || errors.Is(cause, ErrNewer) {
		return fmt.Errorf("%s at byte %d: %w", f.Path, off, cause)
	}
	return fmt.Errorf("%s at byte %d: %w: %w", f.Path, off, ErrCorrupt, cause)
}

func (f *File) readAt(r io.ReaderAt, b []byte, off int64) error {
	if n, err := r.ReadAt(b, off); n < len(b) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // io.EOF is how a subscription ends well
		}
		return f.Damage(off, fmt.Errorf("%d of %d bytes could be read: %w", n, len(b), err))
	}
	return nil
}

// table reads a table and verifies its checksum.
func (f *File) table(r io.ReaderAt, t Table) ([]byte, error) {
	ref := f.Trailer.Tables[t]
	b := make([]byte, ref.Bytes)
	if err := f.readAt(r, b, ref.Off); err != nil {
		return nil, err
	}
	return b, f.checkSum(f.Header.Kind.TableName(t), b, ref.Off, ref.Sum)
}

// checkSum compares the checksum of what stands at off.
func (f *File) checkSum(what string, b []byte, off int64, want uint32) error {
	return f.compareSum(what, message.Sum(b), off, want)
}

func (f *File) compareSum(what string, got uint32, off int64, want uint32) error {
	if got != want {
		return f.Damage(off, fmt.Errorf("%s checksum %08x, want %08x", what, got, want))
	}
	return nil
}

// Index reads the block table of a segment.
func (f *File) Index(r io.ReaderAt) (*Index, error) {
	b, err := f.table(r, BlockTable)
	if err != nil {
		return nil, err
	}
	blocks, err := decodeBlocks(b, f.Header, f.Trailer.Blocks)
	if err != nil {
		return nil, f.Damage(f.Trailer.Tables[BlockTable].Off, err)
	}
	x, err := newIndex(blocks)
	if err != nil {
		return nil, f.Damage(f.Trailer.Tables[BlockTable].Off, err)
	}
	return x, nil
}

// Topics reads the topic table: tree order.
func (f *File) Topics(r io.ReaderAt) ([]TopicVolume, error) {
	b, err := f.table(r, TopicTable)
	if err != nil {
		return nil, err
	}
	v, err := decodeTopics(b, f.Header, f.Trailer)
	if err != nil {
		return nil, f.Damage(f.Trailer.Tables[TopicTable].Off, err)
	}
	return v, nil
}

// SeekTime reads the time table of a segment and returns the last seq before the
// first message of time t or later; the file's last seq if there is none.
func (f *File) SeekTime(r io.ReaderAt, t int64) (after uint64, err error) {
	b, err := f.table(r, TimeTable)
	if err != nil {
		return 0, err
	}
	if after, err = seekTime(b, f.Header, t); err != nil {
		return 0, f.Damage(f.Trailer.Tables[TimeTable].Off, err)
	}
	return after, nil
}

// CheckTables reads all tables and verifies their checksums. What they say is looked at by
// who uses them: the checksum tells that it is what the writer of the trailer wrote.
func (f *File) CheckTables(r io.ReaderAt) error {
	buf := make([]byte, checkedBytes)
	for t := range tableCount {
		ref, sum := f.Trailer.Tables[t], uint32(0)
		for off, end := ref.Off, ref.Off+ref.Bytes; off < end; off += int64(len(buf)) {
			b := buf[:min(int64(len(buf)), end-off)]
			if err := f.readAt(r, b, off); err != nil {
				return err
			}
			sum = message.SumMore(sum, b)
		}
		if err := f.compareSum(f.Header.Kind.TableName(t), sum, ref.Off, ref.Sum); err != nil {
			return err
		}
	}
	return nil
}

// checkedBytes is how much CheckTables reads at a time.
const checkedBytes = 64 << 10

// ReadBlocks fills buf with blocks of a segment, which are neighbours and as long as
// buf, by one call of the disk, and verifies each.
func (f *File) ReadBlocks(r io.ReaderAt, blocks []Block, buf []byte) error {
	if err := f.readAt(r, buf, blocks[0].Off); err != nil {
		return err
	}
	for _, b := range blocks {
		if err := f.checkSum("block", buf[:b.Bytes], b.Off, b.Sum); err != nil {
			return err
		}
		buf = buf[b.Bytes:]
	}
	return nil
}
