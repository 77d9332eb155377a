package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"chorale/disk"
	"chorale/segments"
)

// BadFile is a data file of a backup that is missing or damaged.
type BadFile struct {
	segments.FileMeta
	Why error // wraps fs.ErrNotExist or ErrDamaged
}

// Verify reads a backup wholly and returns its description and the data files that are
// not as they should be. Errors wrap ErrNone, ErrDamaged (the description or the state)
// or ErrNewer, or are those of the disk and of ctx.
func Verify(ctx context.Context, fsys disk.FS, progress func(done, total int64)) (Description, []BadFile, error) {
	d, saved, err := complete(fsys)
	if err != nil {
		return d, nil, err
	}
	var bad []BadFile
	done := int64(0)
	for _, f := range saved.Manifest.Files {
		read := int64(0)
		err := check(fsys, f, func(n int64) error {
			progress(done+min(read, f.Bytes), d.Bytes)
			read += n
			return ctx.Err()
		})
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrDamaged):
			bad = append(bad, BadFile{f, err})
		case err != nil:
			return d, bad, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		done += f.Bytes
		progress(done, d.Bytes)
	}
	return d, bad, nil
}
