package format

import (
	"fmt"
	"io"

	"chorale/message"
)

// Region is a part of a data file that has a checksum of its own.
type Region struct {
	Name       string // header, block 0, block 1, ..., block table, ..., trailer
	Off, Bytes int64
	check      func(b []byte) error
}

// Check says what is wrong with the bytes of a region, all of them; nil if they are sound.
func (x Region) Check(b []byte) error { return x.check(b) }

// TrailerRegion is the trailer of a file of a kind and of size bytes, with the checksum
// that the manifest names. All other regions hang on it.
func TrailerRegion(kind Kind, size int64, sum uint32, path string) Region {
	f := &File{Path: path, Size: size}
	off := size - TrailerBytes
	return Region{"trailer", off, TrailerBytes, func(b []byte) error {
		t, err := DecodeTrailer(b, kind, size)
		if err == nil && t.Sum != sum {
			err = fmt.Errorf("trailer checksum %08x, want %08x", t.Sum, sum)
		}
		if err != nil {
			return f.Damage(off, err)
		}
		return nil
	}}
}

// HeaderRegion is the region of the header, whose sum the trailer knows.
func (f *File) HeaderRegion() Region { return Region{"header", 0, HeaderBytes, f.checkHeader} }

// Tables are the regions of the tables, which stand between blocks and trailer.
func (f *File) Tables() (out []Region) {
	for t := range tableCount {
		ref, name := f.Trailer.Tables[t], f.Header.Kind.TableName(t)
		out = append(out, Region{name, ref.Off, ref.Bytes, func(b []byte) error { return f.checkSum(name, b, ref.Off, ref.Sum) }})
	}
	return out
}

// Regions are the parts of a file, in their order: every byte is in one of them. They
// come from trailer and tables, so an error says that these are damaged.
func (f *File) Regions(r io.ReaderAt) ([]Region, error) {
	out := []Region{f.HeaderRegion()}
	blocks, err := f.blockRegions(r)
	if err != nil {
		return nil, err
	}
	out = append(out, blocks...)
	out = append(out, f.Tables()...)
	return append(out, TrailerRegion(f.Header.Kind, f.Size, f.Trailer.Sum, f.Path)), nil
}

func (f *File) checkHeader(b []byte) error {
	if _, err := DecodeHeader(b); err != nil {
		return f.Damage(0, err)
	}
	return f.checkSum("header", b[:60], 0, f.Trailer.HeaderSum)
}

func (f *File) blockRegions(r io.ReaderAt) (out []Region, err error) {
	add := func(off, bytes int64, check func(b []byte) error) {
		out = append(out, Region{fmt.Sprintf("block %d", len(out)), off, bytes, check})
	}
	if f.Header.Kind == KindStore {
		x, err := f.StoreIndex(r)
		if err != nil {
			return nil, err
		}
		for _, b := range x.Blocks {
			add(b.Off, int64(b.Stored), func(stored []byte) error {
				_, err := f.Unpack(b, stored)
				return err
			})
		}
		return out, nil
	}
	x, err := f.Index(r)
	if err != nil {
		return nil, err
	}
	for _, b := range x.Blocks {
		add(b.Off, int64(b.Bytes), func(records []byte) error { return f.checkRecords(b, records) })
	}
	return out, nil
}

// checkRecords compares a block of a segment with its entry. The checksum does not tell the
// head of a record from another one that is sound, as in a file of other seqs: each ends with
// a checksum of its own. So the seqs are looked at too.
func (f *File) checkRecords(x Block, b []byte) error {
	if err := f.checkSum("block", b, x.Off, x.Sum); err != nil {
		return err
	}
	first, last, n := uint64(0), uint64(0), uint32(0)
	for ; len(b) > 0; n++ {
		r, rest, err := message.Split(b)
		if err != nil {
			return f.Damage(x.Off, err)
		}
		if n == 0 {
			first = r.Seq()
		}
		last, b = r.Seq(), rest
	}
	if n != x.Count || first != f.Header.First+uint64(x.First) || last != f.Header.First+uint64(x.Last) {
		return f.Damage(x.Off, fmt.Errorf("%d records of seqs %d to %d, the block table says %d, +%d to +%d", n, first, last, x.Count, x.First, x.Last))
	}
	return nil
}

// Locate names the first region of a file that is not as it should be, before place and
// cause; nil if all are. It reads the whole file.
func Locate(r io.ReaderAt, size int64, path string) error {
	named := func(name string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	f := &File{Path: path, Size: size}
	header := make([]byte, min(size, HeaderBytes))
	err := f.readAt(r, header, 0)
	if err == nil {
		if _, err = DecodeHeader(header); err != nil {
			err = f.Damage(0, err)
		}
	}
	if err != nil {
		return named("header", err)
	}
	if f, err = Open(r, size, path); err != nil {
		return named("trailer", err)
	}
	for t := range tableCount {
		if _, err := f.table(r, t); err != nil {
			return named(f.Header.Kind.TableName(t), err)
		}
	}
	regions, err := f.Regions(r)
	if err != nil {
		return err
	}
	var buf []byte
	for _, x := range regions {
		buf = append(buf[:0], make([]byte, x.Bytes)...)
		if err := f.readAt(r, buf, x.Off); err != nil {
			return named(x.Name, err)
		}
		if err := x.Check(buf); err != nil {
			return named(x.Name, err)
		}
	}
	return nil
}
