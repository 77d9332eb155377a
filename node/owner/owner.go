// Package owner keeps a data folder its owner's, whoever works on it.
package owner

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Of is whose the folder is.
func Of(dir string) (uid, gid int, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, 0, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid), nil
	}
	return os.Geteuid(), os.Getegid(), nil
}

// HandOver gives everything in the folder to its owner, if root has worked on it: the
// node could not read it otherwise.
func HandOver(dir string) error {
	uid, gid, err := Of(dir)
	if err != nil || os.Geteuid() != 0 || uid == 0 {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // systemd's /var/lib/chorale is one
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}
