package pages

import (
	"testing"
	"unsafe"
)

// TestReserve: what was asked for can be written, all of it, and starts at a large page.
func TestReserve(t *testing.T) {
	usable, mapped := Reserve(3*Large + 1)
	if mapped == nil {
		t.Skip("this system gives no such memory")
	}
	defer Release(mapped)
	if at := uintptr(unsafe.Pointer(&usable[0])); at%Large != 0 {
		t.Errorf("starts at %#x", at)
	}
	usable[0], usable[3*Large] = 1, 1
}
