package backup

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"chorale/disk"
	"chorale/segments"
	"chorale/segments/data"
)

// Stream says what is to be backed up into a tar stream. Unpacked it is a backup: the
// description comes last, so that a stream that was cut is none.
type Stream struct {
	Source  Source
	Scratch disk.FS // for the state, which has to be read before it is passed on
	Version string
	// Pause and Progress are as in Take.
	Pause    time.Duration
	Progress func(done, total int64)
}

// Run writes the stream. After an error w holds a part of it.
func (s Stream) Run(ctx context.Context, w io.Writer) (Taken, error) {
	x := taking{
		Take:  Take{To: s.Scratch, Source: s.Source, Version: s.Version, Pause: cmp.Or(s.Pause, time.Second), Progress: s.Progress},
		sound: make(map[string]bool),
	}
	if x.Progress == nil {
		x.Progress = func(int64, int64) {}
	}
	t := &archive{Writer: tar.NewWriter(w), now: time.Now()}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dataDir + "/", Mode: 0o700, ModTime: t.now}); err != nil {
		return Taken{}, err
	}
	_, err := x.rounds(ctx, func(m segments.Manifest) (gone, err error) { return x.pack(ctx, t, m) })
	if err != nil {
		return Taken{}, err
	}
	return x.out, x.seal(t)
}

// archive is a tar stream that is written.
type archive struct {
	*tar.Writer
	now time.Time
}

func (t *archive) begin(name string, size int64) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: t.now})
}

// pack writes the files of a manifest that are not in the stream yet; gone as of files.
func (x *taking) pack(ctx context.Context, t *archive, m segments.Manifest) (gone, err error) {
	var total int64
	x.done = 0
	for _, f := range m.Files {
		total += f.Bytes
	}
	for _, f := range m.Files {
		if !x.sound[f.Name()] {
			entry := &lazyEntry{t: t, f: f}
			sum := data.NewSum()
			err := x.Source.File(ctx, f.Hash, io.MultiWriter(entry, sum, &counting{w: io.Discard, told: func(n int64) { x.Progress(x.done+n, total) }}))
			switch {
			case errors.Is(err, ErrGone) && !entry.begun:
				gone = fmt.Errorf("messages %d to %d: %s: %w", f.First, f.Last, f.Name(), err)
				continue
			case err != nil:
				return nil, err
			}
			if err := sum.Check(f); err != nil {
				return nil, fmt.Errorf("messages %d to %d: %w: %w", f.First, f.Last, errSpoilt, err)
			}
			x.sound[f.Name()] = true
			x.out.Copied++
			x.out.CopiedBytes += f.Bytes
		}
		x.done += f.Bytes
		x.Progress(x.done, total)
	}
	return gone, nil
}

// lazyEntry begins its file in the stream with the first byte: what is gone has none.
type lazyEntry struct {
	t     *archive
	f     segments.FileMeta
	begun bool
}

// Write implements io.Writer.
func (e *lazyEntry) Write(b []byte) (int, error) {
	if !e.begun {
		e.begun = true
		if err := e.t.begin(path.Join(dataDir, e.f.Name()), e.f.Bytes); err != nil {
			return 0, err
		}
	}
	return e.t.Write(b)
}

// seal writes what is behind the data files: the state, and then the description.
func (x *taking) seal(t *archive) error {
	d := &x.out.Description
	d.Taken = time.Now().UTC().Truncate(time.Second)
	if err := t.begin(d.State.Name, d.State.Bytes); err != nil {
		return err
	}
	f, err := x.To.Open(newStateFile)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(t, io.NewSectionReader(f, 0, d.State.Bytes)); err != nil {
		return err
	}
	b := d.encode()
	if err := t.begin(descriptionFile, int64(len(b))); err != nil {
		return err
	}
	if _, err := t.Write(b); err != nil {
		return err
	}
	return t.Close()
}
