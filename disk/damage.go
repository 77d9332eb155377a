package disk

import (
	"fmt"
	"io/fs"
	"slices"
)

// The direct edits are for tests that damage what lies on the disk, as rot or a
// careless operator would: at once durable, past all faults, seen by open files.

// ReadFile returns a copy of a file's bytes.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile("readfile", name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.data), nil
}

// PutFile sets a file's bytes, and makes the file if its folder exists. With
// ReadFile it takes a file back to what it was.
func (m *Mem) PutFile(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.parent("putfile", name)
	if err != nil {
		return err
	}
	n := at.dir.names[at.name]
	switch {
	case name == "." || n != nil && n.folder():
		return notFile("putfile", name)
	case n == nil:
		n = &inode{}
		at.dir.names[at.name], at.dir.kept[at.name] = n, n
	}
	n.set(slices.Clone(data))
	return nil
}

// FlipBit inverts bit bit of a file, counted from its start.
func (m *Mem) FlipBit(name string, bit int64) error {
	least := bit/8 + 1
	if bit < 0 {
		least = -1
	}
	return m.edit("flipbit", name, least, func(b []byte) []byte {
		b[bit/8] ^= 1 << (bit % 8)
		return b
	})
}

// Truncate cuts a file to size bytes.
func (m *Mem) Truncate(name string, size int64) error {
	return m.edit("truncate", name, size, func(b []byte) []byte { return b[:size] })
}

// Lose removes a file.
func (m *Mem) Lose(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile("lose", name)
	if err != nil {
		return err
	}
	at, err := m.parent("lose", name)
	if err != nil {
		return err
	}
	delete(at.dir.names, at.name)
	delete(at.dir.kept, at.name)
	m.pending = slices.DeleteFunc(m.pending, func(mv *move) bool { return mv.node == n })
	return nil
}

// edit changes a copy of the bytes of a file that has at least so many.
func (m *Mem) edit(op, name string, least int64, change func([]byte) []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findFile(op, name)
	if err != nil {
		return err
	}
	if least < 0 || least > int64(len(n.data)) {
		return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("byte %d of %d: %w", least, len(n.data), fs.ErrInvalid)}
	}
	n.set(change(slices.Clone(n.data)))
	return nil
}

// set gives a file durable bytes.
func (n *inode) set(data []byte) {
	n.data, n.synced, n.rewritten, n.broken = data, data[:len(data):len(data)], false, false
}
