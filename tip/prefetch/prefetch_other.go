//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Line does nothing here.
func Line(unsafe.Pointer) {}

// Records does nothing here.
func Records(uintptr, []uint32, int) {}

// Bytes does nothing here.
func Bytes(uintptr, int) {}

// Far does nothing here.
func Far(uintptr, []uint32, int) {}
