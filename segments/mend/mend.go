// Package mend puts a data file together from damaged copies: each part from one in which
// its checksum holds, or else from what its copies say where they differ.
package mend

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"chorale/segments/format"
	"chorale/segments/manifest"
)

// ErrLost is returned for a file some part of which is sound in no copy, nor in what they
// make together. The text names the part.
var ErrLost = errors.New("a part is sound in no copy, nor in what they make together")

// maxCopies bounds how many bad copies of a part are kept to combine them.
const maxCopies = 8

// File prepares the bytes of a file of the manifest from copies of it, which may be damaged,
// cut, or not there at all: an error of reading one is not more than a part that it lacks.
// Those in front are asked first, and the others only for what these have not got. Whether
// it is the file, its hash must say. The error is ErrLost, now or from write.
func File(meta manifest.FileMeta, copies []io.ReaderAt) (write func(io.Writer) error, err error) {
	all := mender(append(headers(meta), copies...))
	f, end, err := all.open(meta)
	if err != nil {
		return nil, err
	}
	header, err := all.region(f.HeaderRegion())
	if err != nil {
		return nil, err
	}
	if f.Header, err = format.DecodeHeader(header); err != nil {
		return nil, err
	}
	tables := f.Tables()
	for i := range tables {
		if err := all.prepend(&end, tables[len(tables)-1-i]); err != nil {
			return nil, err
		}
	}
	regions, err := f.Regions(end)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		for _, x := range regions[:len(regions)-len(tables)-1] {
			b, err := all.region(x)
			if err != nil {
				return err
			}
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		_, err := w.Write(end.bytes)
		return err
	}, nil
}

// Topics are what a file of the manifest holds of each topic, from copies of it as File takes
// them: trailer and topic table are enough. The error is ErrLost.
func Topics(meta manifest.FileMeta, copies []io.ReaderAt) ([]format.TopicVolume, error) {
	all := mender(copies)
	f, _, err := all.open(meta)
	if err != nil {
		return nil, err
	}
	x := f.Tables()[format.TopicTable]
	b, err := all.region(x)
	if err != nil {
		return nil, err
	}
	return f.Topics(tail{x.Off, b})
}

// open is what the end of a file says, which is the trailer, and what of the header the
// manifest knows.
func (all mender) open(meta manifest.FileMeta) (f *format.File, end tail, err error) {
	end.off = meta.Bytes
	if err := all.prepend(&end, format.TrailerRegion(meta.Kind, meta.Bytes, meta.Sum, meta.Name())); err != nil {
		return nil, end, err
	}
	f = &format.File{Path: meta.Name(), Size: meta.Bytes, Header: meta.Header(0)}
	f.Trailer, err = format.DecodeTrailer(end.bytes, meta.Kind, meta.Bytes)
	return f, end, err
}

// headers are what the manifest knows of a file: the header, but for the chapters of a
// store, which are none or of the usual size. Each is one more copy, cut behind it.
func headers(meta manifest.FileMeta) []io.ReaderAt {
	out := []io.ReaderAt{bytes.NewReader(meta.Header(0).Encode())}
	if meta.Kind == manifest.KindStore {
		out = append(out, bytes.NewReader(meta.Header(format.ChapterBytes).Encode()))
	}
	return out
}

// tail is the end of a file, or another part of it, from off on.
type tail struct {
	off   int64
	bytes []byte
}

// ReadAt implements io.ReaderAt.
func (t tail) ReadAt(b []byte, off int64) (int, error) {
	if off < t.off {
		return 0, fmt.Errorf("byte %d: what is known begins at %d", off, t.off)
	}
	return bytes.NewReader(t.bytes).ReadAt(b, off-t.off)
}

// mender is the copies of a file.
type mender []io.ReaderAt

// prepend puts a region before the end that is known so far.
func (all mender) prepend(end *tail, x format.Region) error {
	b, err := all.region(x)
	if err == nil {
		*end = tail{x.Off, append(b, end.bytes...)}
	}
	return err
}

// region is a sound region, from the first copy that has it, or from several.
func (all mender) region(x format.Region) ([]byte, error) {
	var bad [][]byte
	for _, from := range all {
		b := make([]byte, x.Bytes)
		n, _ := from.ReadAt(b, x.Off) // what could not be read is not there
		if n == len(b) && x.Check(b) == nil {
			return b, nil
		}
		if n > 0 && len(bad) < maxCopies {
			bad = append(bad, b[:n])
		}
	}
	if b := combine(bad, int(x.Bytes), func(b []byte) bool { return x.Check(b) == nil }); b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("%w: %s, bytes %d to %d, of %d copies", ErrLost, x.Name, x.Off, x.Off+x.Bytes, len(bad))
}
