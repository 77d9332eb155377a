package fields

import "testing"

// TestFields: fields come as they were written; once there is too little, zeros come, and
// what would be enough for a smaller field does not count as one.
func TestFields(t *testing.T) {
	b := []byte{7, 1, 2, 0, 0, 9, 0, 0, 0, 0, 0, 0, 1, 3, 0, 'a', 'b', 'c'}
	r := Reader{Rest: b}
	if r.Byte() != 7 || r.Uint32() != 0x201 || r.Uint64() != 1<<56+9 || r.Text() != "abc" || !r.Done() {
		t.Errorf("%+v", r)
	}
	for n := range len(b) {
		r := Reader{Rest: b[:n]}
		for range 2 {
			r.Byte()
			r.Uint32()
			r.Uint64()
			r.Text()
		}
		if r.Done() || !r.Short {
			t.Errorf("of %d bytes there was enough: %+v", n, r)
		}
	}
	r = Reader{Rest: b[:6]}
	if r.Uint64() != 0 || r.Byte() != 0 || r.Text() != "" || !r.Short {
		t.Errorf("behind too little: %+v", r)
	}
	r = Reader{Rest: b}
	if r.Byte(); r.Done() {
		t.Error("done though something is left")
	}
}
