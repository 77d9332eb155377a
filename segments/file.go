package segments

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"weak"

	"chorale/disk"
	"chorale/message"
)

// file is a data file that is here. It is open while someone reads, and gone from
// the disk when it was dropped and the last reader has left.
type file struct {
	fs      disk.FS
	path    string
	meta    FileMeta
	trailer trailer

	mu      sync.Mutex // never held by the applying goroutine
	handle  disk.File  // nil without readers
	readers int
	dropped bool
	// tables are the block table of the file, shared by who reads it at a time.
	tables weak.Pointer[index]
}

// errGone is returned by acquire for a file that was dropped: the view that named
// it is out of date.
var errGone = errors.New("segments: the file was dropped")

// acquire opens the file for one reader. A file that is not on the disk any more
// is an error that wraps fs.ErrNotExist.
func (f *file) acquire() (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dropped {
		return nil, errGone
	}
	if f.readers == 0 {
		h, err := f.fs.Open(f.path)
		if err != nil {
			return nil, err
		}
		f.handle = h
	}
	f.readers++
	return f.handle, nil
}

// release ends one acquire. An error is that of the removal of a dropped file.
func (f *file) release() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers--; f.readers < 0 {
		panic(fmt.Sprintf("segments: %s has %d readers", f.path, f.readers))
	}
	if f.readers > 0 {
		return nil
	}
	err := f.handle.Close()
	f.handle = nil
	if f.dropped {
		return errors.Join(err, f.fs.Remove(f.path))
	}
	return err
}

// drop removes the file once nobody reads it.
func (f *file) drop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = true
	if f.readers == 0 {
		return f.fs.Remove(f.path)
	}
	return nil
}

// index is the block table with a way from partition to blocks. Immutable.
type index struct {
	blocks []block
	parts  []partRange // ascending by id
}

// partRange says which blocks belong to a partition.
type partRange struct{ id, from, to uint32 }

// newIndex groups the blocks; a partition in two places is damage.
func newIndex(blocks []block) (*index, error) {
	x := &index{blocks: blocks}
	for i, b := range blocks {
		if n := len(x.parts); n > 0 && x.parts[n-1].id == b.partition {
			x.parts[n-1].to++
			continue
		}
		x.parts = append(x.parts, partRange{b.partition, uint32(i), uint32(i + 1)})
	}
	slices.SortFunc(x.parts, func(a, b partRange) int { return cmp.Compare(a.id, b.id) })
	for i := 1; i < len(x.parts); i++ {
		if x.parts[i].id == x.parts[i-1].id {
			return nil, fmt.Errorf("%w: the blocks of partition %d stand apart", ErrCorrupt, x.parts[i].id)
		}
	}
	return x, nil
}

// find returns the blocks of a partition.
func (x *index) find(id uint32) []block {
	i, ok := slices.BinarySearchFunc(x.parts, id, func(p partRange, id uint32) int { return cmp.Compare(p.id, id) })
	if !ok {
		return nil
	}
	return x.blocks[x.parts[i].from:x.parts[i].to]
}

// load returns the index of an acquired file, reading it if no other reader has
// it, and how many bytes that took.
func (f *file) load() (*index, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.tables.Value(); x != nil {
		return x, 0, nil
	}
	b, err := readTable(f.handle, f.path, f.trailer, blockTable)
	if err != nil {
		return nil, 0, err
	}
	x, err := decodeIndex(b, f.meta.header(), f.trailer)
	if err != nil {
		return nil, 0, damage(f.path, f.trailer.tables[blockTable].off, err)
	}
	f.tables = weak.Make(x)
	return x, int64(len(b)), nil
}

func decodeIndex(b []byte, h header, t trailer) (*index, error) {
	blocks, err := decodeBlocks(b, h, t.blocks)
	if err != nil {
		return nil, err
	}
	return newIndex(blocks)
}

// header is what the file's header must say.
func (m FileMeta) header() header {
	return header{first: m.First, last: m.Last, firstTime: m.FirstTime, lastTime: m.LastTime}
}

// damage says where a file is damaged; cause may wrap ErrCorrupt already.
func damage(path string, off int64, cause error) error {
	if errors.Is(cause, ErrCorrupt) || errors.Is(cause, ErrForeign) || errors.Is(cause, ErrNewer) {
		return fmt.Errorf("%s at byte %d: %w", path, off, cause)
	}
	return fmt.Errorf("%s at byte %d: %w: %w", path, off, ErrCorrupt, cause)
}

// readAt fills b. Bytes that the disk cannot give are damage of the file.
func readAt(h io.ReaderAt, path string, b []byte, off int64) error {
	n, err := h.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	return damage(path, off, fmt.Errorf("%d of %d bytes could be read: %w", n, len(b), err))
}

// readTable reads a table and verifies its checksum.
func readTable(h io.ReaderAt, path string, t trailer, which int) ([]byte, error) {
	ref := t.tables[which]
	b := make([]byte, ref.bytes)
	if err := readAt(h, path, b, ref.off); err != nil {
		return nil, err
	}
	if got := message.Sum(b); got != ref.sum {
		return nil, damage(path, ref.off, fmt.Errorf("%s checksum %08x, want %08x", tableNames[which], got, ref.sum))
	}
	return b, nil
}

// readEnds reads and checks header and trailer of a file of any origin.
func readEnds(h disk.File, path string) (header, trailer, int64, error) {
	size, err := h.Size()
	if err != nil {
		return header{}, trailer{}, 0, err
	}
	b := make([]byte, min(size, headerBytes))
	if err := readAt(h, path, b, 0); err != nil {
		return header{}, trailer{}, size, err
	}
	head, err := decodeHeader(b)
	if err != nil {
		return header{}, trailer{}, size, damage(path, 0, err)
	}
	sum := message.Sum(b[:60])
	b = make([]byte, max(0, min(size-headerBytes, trailerBytes)))
	if err := readAt(h, path, b, size-int64(len(b))); err != nil {
		return head, trailer{}, size, err
	}
	t, err := decodeTrailer(b, size)
	if err == nil && t.headerSum != sum {
		err = fmt.Errorf("%w: header checksum %08x, the trailer says %08x", ErrCorrupt, sum, t.headerSum)
	}
	if err != nil {
		return head, trailer{}, size, damage(path, size-int64(len(b)), err)
	}
	return head, t, size, nil
}

// adopt checks that the file is the one that meta describes, blocks aside: their
// checksums are verified whenever they are read. An absent file is an error that
// wraps fs.ErrNotExist; one that is not as described wraps ErrCorrupt, ErrForeign
// or ErrNewer.
func adopt(fsys disk.FS, path string, meta FileMeta) (*file, error) {
	h, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	head, t, size, err := readEnds(h, path)
	if err != nil {
		return nil, err
	}
	if size != meta.Bytes || t.sum != meta.Sum || head != meta.header() {
		return nil, damage(path, 0, fmt.Errorf("it holds seqs %d to %d in %d bytes, trailer sum %08x; the manifest says %d to %d, %d bytes, %08x",
			head.first, head.last, size, t.sum, meta.First, meta.Last, meta.Bytes, meta.Sum))
	}
	f := &file{fs: fsys, path: path, meta: meta, trailer: t}
	for which := range tables {
		b, err := readTable(h, path, t, which)
		if err == nil {
			err = f.checkTable(which, b)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// checkTable decodes a table for its errors.
func (f *file) checkTable(which int, b []byte) (err error) {
	switch h := f.meta.header(); which {
	case blockTable:
		_, err = decodeIndex(b, h, f.trailer)
	case topicTable:
		_, err = decodeTopics(b, h, f.trailer.topics, f.trailer.blocks)
	case timeTable:
		_, err = seekTime(b, h, h.firstTime)
	}
	if err != nil {
		return damage(f.path, f.trailer.tables[which].off, err)
	}
	return nil
}

// quarantine puts a damaged file aside under a name that nobody serves, for a
// person to look at. It may be gone already.
func quarantine(fsys disk.FS, dir, path string) error {
	err := fsys.Rename(path, path+damagedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fsys.SyncDir(dir))
}
