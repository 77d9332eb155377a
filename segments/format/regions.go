package format

import (
	"fmt"
	"io"
)

// Region is a part of a data file that has a checksum of its own.
type Region struct {
	Name       string // header, block 0, block 1, ..., block table, ..., trailer
	Off, Bytes int64
	check      func(r io.ReaderAt) error // of a block
}

// Regions are the parts of a file, in their order: every byte is in one of them. They
// come from trailer and block table, so an error says that these are damaged.
func (f *File) Regions(r io.ReaderAt) ([]Region, error) {
	out := []Region{{Name: "header", Bytes: HeaderBytes}}
	blocks, err := f.blockRegions(r)
	if err != nil {
		return nil, err
	}
	out = append(out, blocks...)
	for t := range tableCount {
		ref := f.Trailer.Tables[t]
		out = append(out, Region{Name: f.Header.Kind.TableName(t), Off: ref.Off, Bytes: ref.Bytes})
	}
	return append(out, Region{Name: "trailer", Off: f.Size - TrailerBytes, Bytes: TrailerBytes}), nil
}

func (f *File) blockRegions(r io.ReaderAt) (out []Region, err error) {
	add := func(off, bytes int64, check func(r io.ReaderAt) error) {
		out = append(out, Region{fmt.Sprintf("block %d", len(out)), off, bytes, check})
	}
	if f.Header.Kind == KindStore {
		x, err := f.StoreIndex(r)
		if err != nil {
			return nil, err
		}
		for _, b := range x.Blocks {
			add(b.Off, int64(b.Stored), func(r io.ReaderAt) error {
				stored := make([]byte, b.Stored)
				if err := f.ReadStored(r, []StoreBlock{b}, stored); err != nil {
					return err
				}
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
		add(b.Off, int64(b.Bytes), func(r io.ReaderAt) error {
			return f.ReadBlocks(r, []Block{b}, make([]byte, b.Bytes))
		})
	}
	return out, nil
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
	for _, x := range regions {
		if x.check == nil {
			continue
		}
		if err := x.check(r); err != nil {
			return named(x.Name, err)
		}
	}
	return nil
}
