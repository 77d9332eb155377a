package backup

import (
	"fmt"
	"os"
	"path/filepath"

	"chorale/backup"
	"chorale/disk"

	"github.com/gofrs/flock"
)

// lock keeps others out of a backup, and makes its folder; or only others that write to
// it, if there is a lock and a way to take it.
func lock(dir string, write bool) (release func() error, err error) {
	path := filepath.Join(dir, backup.LockFile)
	l := flock.New(path)
	if write {
		if err := disk.OS(dir).MkdirAll("."); err != nil {
			return nil, fmt.Errorf("backup %s: %w", dir, err)
		}
		locked, err := l.TryLock()
		if err != nil {
			return nil, fmt.Errorf("backup %s cannot be written: %w", dir, err)
		}
		if !locked {
			return nil, fmt.Errorf("backup %s is in use by another process: try again when that has ended", dir)
		}
		return l.Unlock, nil
	}
	if err := backup.Exists(disk.OS(dir)); err != nil { // the lock may be another program's
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	none := func() error { return nil }
	if _, err := os.Stat(path); err != nil {
		return none, nil
	}
	switch locked, err := l.TryRLock(); {
	case err != nil:
		return none, nil // a medium without locks, or one that cannot be written
	case !locked:
		return nil, fmt.Errorf("backup %s is being written by another process: try again when that has ended", dir)
	}
	return l.Unlock, nil
}
