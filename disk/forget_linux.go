package disk

import "golang.org/x/sys/unix"

// forget drops pages that are clean; data files are.
func (o osFile) forget() { _ = unix.Fadvise(int(o.f.Fd()), 0, 0, unix.FADV_DONTNEED) }
