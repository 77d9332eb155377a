package pages

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reserve returns that many bytes and more, starting where a large page can, or nil where
// that cannot be had; mapped is what Release gets. Memory is taken when it is first
// written.
func Reserve(bytes int64) (usable, mapped []byte) {
	mapped, err := unix.Mmap(-1, 0, int(bytes)+Large, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, nil
	}
	// Without large pages everything is right, only slower.
	_ = unix.Madvise(mapped, unix.MADV_HUGEPAGE)
	return mapped[-uintptr(unsafe.Pointer(unsafe.SliceData(mapped)))%Large:], mapped
}

// Release gives back what Reserve returned. Nobody may hold any of it.
func Release(mapped []byte) { _ = unix.Munmap(mapped) }
