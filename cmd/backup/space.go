package backup

import (
	"errors"
	"io/fs"
	"path/filepath"

	"chorale/backup"

	"golang.org/x/sys/unix"
)

// space is how many bytes fit on the disk of a folder, which may not exist yet.
func space(dir string) backup.Space {
	return func() (int64, error) {
		path, err := filepath.Abs(dir)
		if err != nil {
			return 0, err
		}
		var st unix.Statfs_t
		for {
			err = unix.Statfs(path, &st)
			if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
				break
			}
			path = filepath.Dir(path)
		}
		return int64(st.Bavail) * int64(st.Bsize), err
	}
}
