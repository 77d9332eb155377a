package format

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestDump shows a small file to the byte. Run with -rewrite to refresh it; a
// change of it is a change of the format.
func TestDump(t *testing.T) {
	datadriven.RunTest(t, "testdata/dump", func(t *testing.T, d *datadriven.TestData) string {
		var messages int
		d.ScanArgs(t, "messages", &messages)
		b := small(t, 1000, messages)
		f, err := Open(bytes.NewReader(b), int64(len(b)), "x")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		dump(&out, "header", b[:HeaderBytes], 0)
		dump(&out, "blocks", b[HeaderBytes:HeaderBytes+f.Trailer.Blocks], HeaderBytes)
		for i, ref := range f.Trailer.Tables {
			dump(&out, KindSegment.TableName(Table(i)), b[ref.Off:ref.Off+ref.Bytes], int(ref.Off))
		}
		dump(&out, "trailer", b[len(b)-TrailerBytes:], len(b)-TrailerBytes)
		return out.String()
	})
}

// dump prints 16 bytes a line, in words of 4.
func dump(out *strings.Builder, name string, b []byte, off int) {
	fmt.Fprintf(out, "%s\n", name)
	for len(b) > 0 {
		n := min(16, len(b))
		var hex, text strings.Builder
		for i, c := range b[:n] {
			if i%4 == 0 {
				hex.WriteByte(' ')
			}
			fmt.Fprintf(&hex, "%02x", c)
			if c < ' ' || c > '~' {
				c = '.'
			}
			text.WriteByte(c)
		}
		fmt.Fprintf(out, "%6d %-37s  %s\n", off, hex.String(), text.String())
		b, off = b[n:], off+n
	}
}
