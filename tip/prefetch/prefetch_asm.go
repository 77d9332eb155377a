//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line asks for the cache line at p. Any p is safe.
//
//go:noescape
func Line(p unsafe.Pointer)

// Records asks, for each unit of 8 bytes, for the lines of the bytes from
// base + 8*unit on. Any address is safe.
//
//go:noescape
func Records(base uintptr, units []uint32, bytes int)

// Far is Records into the processor's second cache, which has room for more misses
// at a time than the first.
//
//go:noescape
func Far(base uintptr, units []uint32, bytes int)

// Bytes asks for the lines of n bytes from p on. Any address is safe.
func Bytes(p uintptr, n int)
