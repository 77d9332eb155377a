package partial

import (
	"errors"
	"fmt"
	"io"
	"path"

	"chorale/disk"
	"chorale/segments/data"
	"chorale/segments/manifest"
)

// readBytes is how much of what an earlier life has left is read at once.
const readBytes = 256 << 10

// File is a partial file that is being written, by one goroutine. It ends with one of
// Keep, Drop and MoveTo.
type File struct {
	Meta manifest.FileMeta

	s       *Store
	f       disk.File // nil behind Finish
	sum     *data.Sum
	bytes   int64
	resumed int64
	dropped int64
}

// Resume opens the partial file of m, and reads what there is of it to know its hash
// so far. What cannot be read, or is too long, is thrown away.
func (s *Store) Resume(m manifest.FileMeta) (*File, error) {
	had, known, err := s.begin(m)
	if err != nil {
		return nil, err
	}
	p := &File{Meta: m, s: s, sum: data.NewSum()}
	if known && had <= m.Bytes && p.reopen() == nil {
		p.resumed = p.bytes
		s.set(m.Name(), p.bytes, true)
		return p, nil
	}
	if p.f != nil {
		_ = p.f.Close() // the cause is what matters, and the file goes
	}
	p.sum, p.bytes, p.dropped = data.NewSum(), 0, had
	if p.f, err = s.fs.Create(s.path(m.Name())); err != nil {
		s.set(m.Name(), 0, false)
		if !known {
			s.forget(m.Name())
		}
		return nil, err
	}
	s.set(m.Name(), 0, true)
	return p, nil
}

// reopen opens the file behind its end and sums up what it holds.
func (p *File) reopen() (err error) {
	if p.f, err = p.s.fs.Append(p.s.path(p.Meta.Name())); err != nil {
		return err
	}
	buf := make([]byte, readBytes)
	for {
		n, err := p.f.ReadAt(buf, p.bytes)
		_, _ = p.sum.Write(buf[:n])
		p.bytes += int64(n)
		switch {
		case err == io.EOF && p.bytes > p.Meta.Bytes:
			return ErrBad
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// Offset is how many bytes there are: where the next Write goes.
func (p *File) Offset() int64 { return p.bytes }

// Resumed is how many bytes an earlier try had left, and Dropped how many of those were
// thrown away.
func (p *File) Resumed() int64 { return p.resumed }

// Dropped: see Resumed.
func (p *File) Dropped() int64 { return p.dropped }

// Write appends. Nothing is written behind the end that the file must have.
func (p *File) Write(b []byte) (int, error) {
	if p.bytes+int64(len(b)) > p.Meta.Bytes {
		return 0, fmt.Errorf("%w: %s has %d bytes, and more came", ErrBad, p.Meta.Name(), p.Meta.Bytes)
	}
	n, err := p.f.Write(b)
	_, _ = p.sum.Write(b[:n])
	p.bytes += int64(n)
	p.s.set(p.Meta.Name(), p.bytes, true)
	return n, err
}

// Keep closes the file and leaves what there is for another try.
func (p *File) Keep() error {
	err := p.close()
	p.s.set(p.Meta.Name(), p.bytes, false)
	return err
}

// Drop closes the file and throws it away.
func (p *File) Drop() error {
	// What is removed need not be closed well.
	_ = p.close()
	return p.s.remove(p.Meta.Name())
}

func (p *File) close() error {
	if p.f == nil {
		return nil
	}
	f := p.f
	p.f = nil
	return f.Close()
}

// Finish holds the whole against its description and makes the bytes durable; MoveTo
// comes next. A file that fails is dropped: with ErrBad if it is not as described, else
// with the disk's error, behind which its bytes may not be relied on.
func (p *File) Finish() error {
	err := p.sum.Check(p.Meta)
	if err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrBad, p.Meta.Name(), err)
	} else if err = p.f.Sync(); err == nil {
		err = p.close()
	}
	if err != nil {
		return errors.Join(err, p.Drop())
	}
	return nil
}

// MoveTo gives a finished file the name of a data file, durably. If it fails the file is
// kept, or is under its new name.
func (p *File) MoveTo(to string) error {
	name := p.Meta.Name()
	if err := p.s.fs.Rename(p.s.path(name), to); err != nil {
		return errors.Join(err, p.Keep())
	}
	p.s.forget(name)
	return errors.Join(p.s.fs.SyncDir(path.Dir(to)), p.s.fs.SyncDir(p.s.dir))
}
