package data

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"chorale/disk"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// MissingError is the ErrNotHere of a reader: which file it lacks, and for which seq.
type MissingError struct {
	Meta     manifest.FileMeta
	Position uint64
}

// Error names both.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%v: %s, for position %d", ErrNotHere, e.Meta.Name(), e.Position)
}

// Unwrap makes errors.Is find ErrNotHere.
func (e *MissingError) Unwrap() error { return ErrNotHere }

// Sum hashes a whole file.
type Sum struct {
	hash  hash.Hash
	bytes int64
}

// NewSum has seen nothing yet.
func NewSum() *Sum { return &Sum{hash: sha256.New()} }

// Write implements io.Writer. It never fails.
func (s *Sum) Write(b []byte) (int, error) {
	s.bytes += int64(len(b))
	return s.hash.Write(b)
}

// Check compares with what the manifest says of the file.
func (s *Sum) Check(meta manifest.FileMeta) error {
	if got := manifest.Hash(s.hash.Sum(nil)); s.bytes != meta.Bytes || got != meta.Hash {
		return fmt.Errorf("%d bytes with hash %s, want %d and %s", s.bytes, got, meta.Bytes, meta.Hash)
	}
	return nil
}

// verifyBytes is how much Verify reads at once.
const verifyBytes = 256 << 10

// Verify reads the file at path to its end, from the disk as far as the system lets it,
// and compares it with its description. pace is called before each read with its bytes;
// its error ends the work. open reports whether the file could be opened: what cannot be
// read is damage then, and not a lack of handles.
func Verify(fsys disk.FS, path string, meta manifest.FileMeta, pace func(bytes int64) error) (open bool, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	disk.Forget(f)
	defer disk.Forget(f)
	sum, buf := NewSum(), make([]byte, min(verifyBytes, meta.Bytes+1))
	for off := int64(0); off <= meta.Bytes; {
		n := min(verifyBytes, meta.Bytes+1-off) // one byte more, to find what is too long
		if err := pace(n); err != nil {
			return false, err
		}
		got, err := f.ReadAt(buf[:n], off)
		_, _ = sum.Write(buf[:got])
		off += int64(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			return true, err
		}
	}
	if err = sum.Check(meta); err == nil {
		return true, nil
	}
	// Where it is, for the person who is told. If all checksums hold it is another file.
	if place := format.Locate(f, meta.Bytes, path); place != nil {
		err = fmt.Errorf("%w (%w)", place, err)
	}
	return true, err
}
