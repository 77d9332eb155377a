package tip

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is what the kernel can map by one entry of its tables.
const hugePage = 2 << 20

// reserve returns that many bytes of memory outside of the garbage collector's
// heap, or nil. Large pages are asked for: a recovery touches records all over the
// ring, and with small pages the processor would miss its tables as often as its
// cache. The memory is taken when it is first written.
func reserve(bytes int64) []byte {
	mapped, err := unix.Mmap(-1, 0, int(bytes)+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	// Without large pages everything is right, only slower.
	_ = unix.Madvise(mapped, unix.MADV_HUGEPAGE)
	return mapped
}

// aligned is the part of mapped that starts where a large page can.
func aligned(mapped []byte) []byte {
	return mapped[-uintptr(unsafe.Pointer(unsafe.SliceData(mapped)))%hugePage:]
}

// release gives back what reserve returned.
func release(mapped []byte) { _ = unix.Munmap(mapped) }
