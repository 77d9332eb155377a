package disk

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// memFile is an open file of a Mem.
type memFile struct {
	mount    *mount
	name     string
	node     *inode
	writable bool
	// Guarded by Mem.mu.
	at     int64 // where the next Write goes
	closed bool
}

func (f *memFile) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

// begin takes the lock and asks the faults; the lock is held also on error.
func (f *memFile) begin(op string, bytes int) (verdict, error) {
	f.mount.m.mu.Lock()
	if f.closed {
		return verdict{}, f.fail(op, fs.ErrClosed)
	}
	v, err := f.mount.admit(op, bytes, f.name)
	if err == nil && f.closed { // while it was stalled
		return verdict{}, f.fail(op, fs.ErrClosed)
	}
	return v, err
}

func (f *memFile) Write(p []byte) (int, error) {
	v, err := f.begin("write", len(p))
	defer f.mount.m.mu.Unlock()
	if !f.writable {
		return 0, f.fail("write", fmt.Errorf("it is open for reading: %w", fs.ErrPermission))
	}
	if err != nil {
		p = p[:v.pass]
	}
	f.put(p)
	return len(p), err
}

func (f *memFile) put(p []byte) {
	n := f.node
	if len(p) == 0 {
		return
	}
	f.at += int64(len(p))
	start := f.at - int64(len(p))
	if gap := start - int64(len(n.data)); gap > 0 { // another handle truncated it
		n.data = append(n.data, make([]byte, gap)...)
	}
	if start < int64(len(n.data)) { // another handle wrote here; synced shares the array
		n.data, n.rewritten = slices.Clone(n.data), true
		p = p[copy(n.data[start:], p):]
	}
	n.data = append(n.data, p...)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	v, err := f.begin("read", 0)
	defer f.mount.m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, f.fail("read", fmt.Errorf("offset %d: %w", off, fs.ErrInvalid))
	}
	if off >= int64(len(f.node.data)) {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	for _, bit := range v.flips {
		if i := bit/8 - off; i >= 0 && i < int64(n) {
			p[i] ^= 1 << (bit % 8)
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Sync() error {
	v, err := f.begin("sync", 0)
	defer f.mount.m.mu.Unlock()
	n := f.node
	switch {
	case err != nil:
		n.broken = n.broken || v.hit
		return err
	case !v.lie && !n.broken:
		n.synced, n.rewritten = n.data[:len(n.data):len(n.data)], false
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.mount.m.mu.Lock()
	defer f.mount.m.mu.Unlock()
	switch {
	case f.mount.life != f.mount.m.life:
		return 0, f.fail("size", ErrPowerLost)
	case f.closed:
		return 0, f.fail("size", fs.ErrClosed)
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error {
	f.mount.m.mu.Lock()
	defer f.mount.m.mu.Unlock()
	if f.closed {
		return f.fail("close", fs.ErrClosed)
	}
	f.closed = true
	if f.mount.life != f.mount.m.life {
		return f.fail("close", ErrPowerLost)
	}
	return nil
}
