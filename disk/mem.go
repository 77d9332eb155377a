package disk

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrPowerLost is wrapped by every error of a handle or mount from before a
// crash. It wraps fs.ErrClosed.
var ErrPowerLost = fmt.Errorf("the power was lost: %w", fs.ErrClosed)

// Mem is a file system in memory that can fail on purpose: see Fault, Crash, and
// the direct edits (FlipBit and others). Safe for concurrent use. Through Mem
// itself a caller sees the current life; see Mount.
type Mem struct {
	mu      sync.Mutex
	seed    uint64
	life    uint64  // number of crashes
	root    *inode  // of this life
	pending []*move // changes of names, oldest first, up to the first unsettled one
	faults  []*rule
}

// inode is a file or a folder. Guarded by Mem.mu.
type inode struct {
	// A folder's names, and those that a sync made durable. Nil for a file.
	names, kept map[string]*inode

	// A file's bytes, and those that a sync made durable. data grows by append
	// only, so that synced may share its array.
	data, synced []byte
	// rewritten says that data does not begin with synced (truncated since).
	rewritten bool
	// broken says that a sync failed: later ones promise nothing.
	broken bool
}

func newFolder() *inode {
	return &inode{names: make(map[string]*inode), kept: make(map[string]*inode)}
}

func (n *inode) folder() bool { return n.names != nil }

// dirty reports whether a crash may change the file.
func (n *inode) dirty() bool { return n.rewritten || len(n.data) != len(n.synced) }

// NewMem returns an empty one. Seed decides what a crash keeps.
func NewMem(seed uint64) *Mem { return &Mem{seed: seed, root: newFolder()} }

// Mount is the file system as one process sees it: after the next Crash every
// call through it, and every file opened through it, fails with ErrPowerLost. So
// what still runs of a crashed process cannot reach into the next life.
func (m *Mem) Mount() FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &mount{m, m.life}
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) { return m.Mount().Create(name) }

// Append implements FS.
func (m *Mem) Append(name string) (File, error) { return m.Mount().Append(name) }

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.Mount().Open(name) }

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error { return m.Mount().Rename(oldName, newName) }

// Remove implements FS.
func (m *Mem) Remove(name string) error { return m.Mount().Remove(name) }

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error { return m.Mount().MkdirAll(dir) }

// List implements FS.
func (m *Mem) List(dir string) ([]fs.FileInfo, error) { return m.Mount().List(dir) }

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error { return m.Mount().SyncDir(dir) }

// find is the inode of a name.
func (m *Mem) find(op, name string) (*inode, error) {
	n := m.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if n = n.names[part]; n == nil { // a file has no names
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

// findFile is find for what must be a file, findFolder for a folder.
func (m *Mem) findFile(op, name string) (*inode, error) {
	n, err := m.find(op, name)
	if err == nil && n.folder() {
		return nil, notFile(op, name)
	}
	return n, err
}

func (m *Mem) findFolder(op, name string) (*inode, error) {
	n, err := m.find(op, name)
	if err == nil && !n.folder() {
		return nil, &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("it is no folder: %w", fs.ErrInvalid)}
	}
	return n, err
}

// parent is the place of a name whose folder must exist.
func (m *Mem) parent(op, name string) (place, error) {
	dir, err := m.findFolder(op, path.Dir(name))
	if err != nil {
		return place{}, &fs.PathError{Op: op, Path: name, Err: err.(*fs.PathError).Err}
	}
	return place{dir: dir, name: path.Base(name)}, nil
}

// mount is one life of a Mem.
type mount struct {
	m    *Mem
	life uint64
}

func (v *mount) Create(name string) (File, error) {
	const op = "create"
	if err := v.begin(op, name); err != nil {
		return nil, err
	}
	defer v.m.mu.Unlock()
	at, err := v.m.parent(op, name)
	if err != nil {
		return nil, err
	}
	n := at.dir.names[at.name]
	switch {
	case name == "." || n != nil && n.folder():
		return nil, notFile(op, name)
	case n == nil:
		n = &inode{}
		v.m.move(n, place{}, at)
	default:
		n.data, n.rewritten, n.broken = nil, n.rewritten || len(n.synced) > 0, false
	}
	return &memFile{mount: v, name: name, node: n, writable: true}, nil
}

func (v *mount) Append(name string) (File, error) { return v.existing("append", name) }

func (v *mount) Open(name string) (File, error) { return v.existing("open", name) }

// existing opens a file that is there.
func (v *mount) existing(op, name string) (File, error) {
	if err := v.begin(op, name); err != nil {
		return nil, err
	}
	defer v.m.mu.Unlock()
	n, err := v.m.findFile(op, name)
	if err != nil {
		return nil, err
	}
	return &memFile{mount: v, name: name, node: n, writable: op == "append", at: int64(len(n.data))}, nil
}

func (v *mount) Rename(oldName, newName string) error {
	const op = "rename"
	if err := v.begin(op, oldName, newName); err != nil {
		return err
	}
	defer v.m.mu.Unlock()
	n, err := v.m.findFile(op, oldName)
	if err != nil {
		return err
	}
	to, err := v.m.parent(op, newName)
	if err != nil {
		return err
	}
	if old := to.dir.names[to.name]; newName == "." || old != nil && old.folder() {
		return notFile(op, newName)
	}
	if oldName == newName {
		return nil
	}
	from, err := v.m.parent(op, oldName)
	if err != nil {
		return err
	}
	v.m.move(n, from, to)
	return nil
}

func (v *mount) Remove(name string) error {
	const op = "remove"
	if err := v.begin(op, name); err != nil {
		return err
	}
	defer v.m.mu.Unlock()
	n, err := v.m.findFile(op, name)
	if err != nil {
		return err
	}
	from, err := v.m.parent(op, name)
	if err != nil {
		return err
	}
	v.m.move(n, from, place{})
	return nil
}

func (v *mount) MkdirAll(dir string) error {
	if err := v.begin("mkdir", dir); err != nil {
		return err
	}
	defer v.m.mu.Unlock()
	if dir == "." {
		return nil
	}
	n := v.m.root
	for part := range strings.SplitSeq(dir, "/") {
		c := n.names[part]
		if c == nil {
			c = newFolder()
			v.m.move(c, place{}, place{dir: n, name: part})
		} else if !c.folder() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: fmt.Errorf("%s is a file: %w", part, fs.ErrExist)}
		}
		v.m.syncNames(n)
		n = c
	}
	return nil
}

func (v *mount) List(dir string) ([]fs.FileInfo, error) {
	if err := v.begin("list", dir); err != nil {
		return nil, err
	}
	defer v.m.mu.Unlock()
	n, err := v.m.findFolder("list", dir)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(n.names))
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		c := n.names[name]
		infos = append(infos, memInfo{name: name, size: int64(len(c.data)), folder: c.folder()})
	}
	return infos, nil
}

func (v *mount) SyncDir(dir string) error {
	const op = "syncdir"
	if err := validate(op, dir); err != nil {
		return err
	}
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	verdict, err := v.admit(op, 0, dir)
	if err != nil && !verdict.hit {
		return err
	}
	n, missing := v.m.findFolder(op, dir)
	switch {
	case missing != nil:
		return missing
	case err != nil:
		n.broken = true
		return err
	case !verdict.lie:
		v.m.syncNames(n)
	}
	return nil
}

// begin checks the names, takes the lock and asks the faults. On error the lock
// is free again.
func (v *mount) begin(op string, names ...string) error {
	if err := validate(op, names...); err != nil {
		return err
	}
	v.m.mu.Lock()
	if _, err := v.admit(op, 0, names...); err != nil {
		v.m.mu.Unlock()
		return err
	}
	return nil
}

// memInfo describes an entry. Mem keeps no times and no permissions.
type memInfo struct {
	name   string
	size   int64
	folder bool
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) IsDir() bool        { return i.folder }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) Sys() any           { return nil }

func (i memInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
