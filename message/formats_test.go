package message

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestFormatsPage: the page shows the drawings that stand above the code, and the
// limits that the code has.
func TestFormatsPage(t *testing.T) {
	page := readText(t, "../docs/formats.md")
	for _, source := range []string{"message.go", "batch.go"} {
		if d := drawing(readText(t, source)); d == "" || !strings.Contains(page, "```\n"+d+"```\n") {
			t.Errorf("docs/formats.md does not show the drawing of %s:\n%s", source, d)
		}
	}
	for name, n := range map[string]int{"MaxRecordBytes": MaxRecordBytes, "MaxBatchBytes": MaxBatchBytes} {
		if want := fmt.Sprintf("%d,%03d,%03d bytes (`%s`)", n/1_000_000, n/1000%1000, n%1000, name); !strings.Contains(page, want) {
			t.Errorf("docs/formats.md does not say %q", want)
		}
	}
}

func readText(t *testing.T, name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// drawing is the block of comment lines that begins with "offset size".
func drawing(source string) string {
	_, rest, _ := strings.Cut(source, "//\toffset size")
	var out strings.Builder
	for line := range strings.Lines("//\toffset size" + rest) {
		text, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			break
		}
		out.WriteString(text)
	}
	return out.String()
}
