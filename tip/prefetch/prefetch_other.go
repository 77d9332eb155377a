//go:build !amd64 && !arm64

package prefetch

import "unsafe"

func Line(unsafe.Pointer) {}

func Records(uintptr, []uint32, int) {}

func Bytes(uintptr, int) {}
