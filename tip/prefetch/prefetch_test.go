package prefetch

import (
	"testing"
	"unsafe"
)

// TestAnywhere: asking for memory that is not there is no fault, and what is asked
// for stays as it is.
func TestAnywhere(t *testing.T) {
	b := make([]byte, 1000)
	base := uintptr(unsafe.Pointer(&b[0]))
	Line(nil)
	Line(unsafe.Pointer(&b[999]))
	Bytes(0, 100)
	Bytes(base, 0)
	Bytes(base+100, 5000)
	for _, records := range []func(uintptr, []uint32, int){Records, Far} {
		records(base, nil, 100)
		records(base, []uint32{0, 50, 1 << 31}, 200)
		records(base-800, []uint32{100}, 0)
	}
	for i := range b {
		if b[i] != 0 {
			t.Fatalf("byte %d was changed", i)
		}
	}
}
