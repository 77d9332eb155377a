package tsv

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// lines reads everything and prints a line, or the error in its place.
func lines(t *testing.T, in io.Reader) string {
	t.Helper()
	r, err := NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out strings.Builder
	for {
		l, err := r.Next()
		var malformed *LineError
		switch {
		case err == io.EOF:
			return out.String()
		case errors.As(err, &malformed):
			fmt.Fprintln(&out, malformed)
		case err != nil:
			fmt.Fprintln(&out, err)
			return out.String()
		default:
			fmt.Fprintf(&out, "%d %d %q %d %q\n", l.Number, l.Time, l.Topic, l.Size, l.Short)
		}
	}
}

const sample = "1\ta/b\t5\thello\n" +
	"2\ta b/ü\t0\t\n" +
	"x\ta/b\t5\thello\n" +
	"\n" +
	"3\ta//b\t5\thello\n" +
	"3\ta/b\t-5\thello\n" +
	"4\ta/b\t5\twith\ttabs"

func TestLines(t *testing.T) {
	got := lines(t, strings.NewReader(sample))
	for i, want := range []string{
		`1 1 "a/b" 5 "hello"`,
		`2 2 "a b/ü" 0 ""`,
		`line 3: time "x" is not a whole number of seconds`,
		`line 4: 1 columns, want 4 parted by tabs: seconds, topic, size, payload`,
		`line 5: `,
		`line 6: size "-5" is not a number of bytes`,
		`7 4 "a/b" 5 "with\ttabs"`,
	} {
		if line := strings.Split(got, "\n")[i]; !strings.HasPrefix(line, want) {
			t.Errorf("got %s\nwant %s", line, want)
		}
	}
}

func TestCompressed(t *testing.T) {
	var zipped, packed bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	io.WriteString(gz, sample)
	gz.Close()
	zst, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(zst, sample)
	zst.Close()
	want := lines(t, strings.NewReader(sample))
	for name, b := range map[string][]byte{"gzip": zipped.Bytes(), "zstd": packed.Bytes()} {
		if got := lines(t, bytes.NewReader(b)); got != want {
			t.Errorf("%s: got %s", name, got)
		}
		if got := lines(t, bytes.NewReader(b[:len(b)-9])); got == want {
			t.Errorf("%s: a cut file reads like a whole one", name)
		}
	}
}

func TestOverlongLine(t *testing.T) {
	long := "1\ta\t5\t" + strings.Repeat("x", 3*MaxLineBytes)
	got := lines(t, strings.NewReader("1\ta\t1\tx\n"+long+"\n2\tb\t1\ty\n"+long))
	want := "1 1 \"a\" 1 \"x\"\nline 2: longer than 1048576 bytes\n3 2 \"b\" 1 \"y\"\nline 4: longer than 1048576 bytes\n"
	if got != want {
		t.Errorf("got %s", got)
	}
}

// TestPayload fixes the bytes: an import that is repeated years later must send
// the same ones.
func TestPayload(t *testing.T) {
	l := Line{Topic: "a/b", Size: 60, Short: "f64dbd91ed M"}
	got := string(l.Payload(nil, 1024))
	if len(got) != 60 || !strings.HasPrefix(got, "f64dbd91ed M\n") {
		t.Errorf("got %q, want 60 bytes", got)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(got)))[:16]; sum != "fd00f812ce5e5008" {
		t.Errorf("the payload's bytes changed: %s %q", sum, got)
	}
	for _, c := range []struct {
		size, limit int64
		want        int
	}{{60, 20, 20}, {60, 4, 12}, {0, 1024, 12}, {12, 1024, 12}, {13, 1024, 13}, {5000, 1024, 1024}} {
		l.Size = c.size
		if got := len(l.Payload([]byte("before"), c.limit)) - len("before"); got != c.want {
			t.Errorf("size %d, limit %d: %d bytes, want %d", c.size, c.limit, got, c.want)
		}
	}
}

// TestSample reads the whole sample stream and checks that its padding
// compresses like the source code that it stands for.
func TestSample(t *testing.T) {
	f, err := os.Open("../../testdata/forge.tsv.zst")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var payloads []byte
	count := 0
	for ; ; count++ {
		l, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(payloads) < 4<<20 {
			payloads = l.Payload(payloads, 1024)
		}
	}
	if count != 300_000 {
		t.Errorf("%d lines", count)
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	ratio := float64(len(payloads)) / float64(len(w.EncodeAll(payloads, nil)))
	t.Logf("padding compresses %.1f to 1", ratio)
	if ratio < 2 || ratio > 6 {
		t.Errorf("padding compresses %.1f to 1, source code does 3 or 4 to 1", ratio)
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer r.Close()
		for n := 0; n <= len(b); n++ {
			l, err := r.Next()
			var malformed *LineError
			if err != nil && !errors.As(err, &malformed) {
				return
			}
			if err == nil && (l.Size < 0 || len(l.Payload(nil, 64)) < len(l.Short)) {
				t.Fatalf("%+v", l)
			}
		}
	})
}
