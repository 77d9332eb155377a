package format

import (
	"bytes"
	"testing"
)

// TestSoundHeaderOfAnotherFile: a header that is right by itself is refused by the
// trailer that does not know it.
func TestSoundHeaderOfAnotherFile(t *testing.T) {
	b := small(t, 1, 10)
	h, err := DecodeHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	h.FirstTime--
	copy(b, h.Encode())
	if _, err := Open(bytes.NewReader(b), int64(len(b)), "x"); err == nil {
		t.Fatal("accepted")
	}
}
