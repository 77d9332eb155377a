package show

import "testing"

func TestFormat(t *testing.T) {
	for in, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 256 << 20: "256 MiB", 5 << 40: "5 TiB"} {
		if got := Bytes(in); got != want {
			t.Errorf("%d: got %s", in, got)
		}
	}
	for in, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := Count(in); got != want {
			t.Errorf("%d: got %s", in, got)
		}
	}
}
