package disk

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// OS is the real file system below a root folder. The root need not exist yet:
// MkdirAll makes it. Files are the owner's alone (0600, folders 0700). Go opens
// every file close-on-exec.
func OS(root string) FS { return osFS{root} }

type osFS struct{ root string }

func (o osFS) full(name string) string { return filepath.Join(o.root, filepath.FromSlash(name)) }

func (o osFS) Create(name string) (File, error) {
	return o.open("create", name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (o osFS) Append(name string) (File, error) { return o.open("append", name, os.O_RDWR|os.O_APPEND) }

func (o osFS) Open(name string) (File, error) { return o.open("open", name, os.O_RDONLY) }

func (o osFS) open(op, name string, flag int) (File, error) {
	if err := validate(op, name); err != nil {
		return nil, err
	}
	if err := o.wantFile(op, name); err != nil && !(op == "create" && errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	f, err := os.OpenFile(o.full(name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// wantFile refuses folders.
func (o osFS) wantFile(op, name string) error {
	info, err := os.Lstat(o.full(name))
	if err == nil && info.IsDir() {
		return notFile(op, o.full(name))
	}
	return err
}

func (o osFS) Rename(oldName, newName string) error {
	if err := validate("rename", oldName, newName); err != nil {
		return err
	}
	if err := o.wantFile("rename", oldName); err != nil {
		return err
	}
	if err := o.wantFile("rename", newName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(o.full(oldName), o.full(newName))
}

func (o osFS) Remove(name string) error {
	if err := validate("remove", name); err != nil {
		return err
	}
	if err := o.wantFile("remove", name); err != nil {
		return err
	}
	return os.Remove(o.full(name))
}

func (o osFS) MkdirAll(dir string) error {
	if err := validate("mkdir", dir); err != nil {
		return err
	}
	_, err := os.Lstat(o.root)
	newRoot := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(o.full(dir), 0o700); err != nil {
		return err
	}
	// Also where the folder was there already: who made it may have crashed before
	// the sync.
	for d := dir; d != "."; d = path.Dir(d) {
		if err := o.SyncDir(path.Dir(d)); err != nil {
			return err
		}
	}
	if newRoot {
		return syncFolder(filepath.Dir(filepath.Clean(o.root)))
	}
	return nil
}

func (o osFS) List(dir string) ([]fs.FileInfo, error) {
	if err := validate("list", dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(o.full(dir))
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since ReadDir
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (o osFS) SyncDir(dir string) error {
	if err := validate("syncdir", dir); err != nil {
		return err
	}
	return syncFolder(o.full(dir))
}

func syncFolder(full string) error {
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// osFile is an os.File without the methods that the contract does not have.
type osFile struct{ f *os.File }

func (o osFile) Write(p []byte) (int, error)             { return o.f.Write(p) }
func (o osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }
func (o osFile) Close() error                            { return o.f.Close() }
func (o osFile) Sync() error                             { return o.f.Sync() }

func (o osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
