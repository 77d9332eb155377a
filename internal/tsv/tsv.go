// Package tsv reads sample streams: text files with one message a line,
//
//	unix seconds <TAB> topic <TAB> size in bytes <TAB> short payload
//
// plain or compressed by gzip or zstd, which is told from the first bytes. Size
// is that of the real message; Payload makes bytes of that size from the line.
package tsv

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"chorale/topic"

	"github.com/klauspost/compress/zstd"
)

// MaxLineBytes bounds one line; a longer one is malformed.
const MaxLineBytes = 1 << 20

// Line is one message of a sample stream.
type Line struct {
	// Number counts the lines of the text from 1, malformed ones included.
	Number uint64
	// Time is in seconds since 1970 UTC.
	Time  int64
	Topic string
	// Size is the payload's size in the real stream, in bytes.
	Size int64
	// Short is the payload's known beginning.
	Short string
}

// LineError says what is wrong with one line. Reading may go on behind it.
type LineError struct {
	Number uint64
	Reason string
}

// Error names the line and the reason.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Number, e.Reason) }

// Reader reads lines. For one goroutine.
type Reader struct {
	in    *bufio.Reader
	close func()
	line  uint64
}

// NewReader reads from r what Decompress makes of it. Close it after use.
func NewReader(r io.Reader) (*Reader, error) {
	text, err := Decompress(r)
	if err != nil {
		return nil, err
	}
	return &Reader{in: bufio.NewReaderSize(text, MaxLineBytes), close: func() { text.Close() }}, nil
}

// Close releases the decoder; the reader below stays its owner's to close.
func (r *Reader) Close() { r.close() }

// Next returns the next line, or io.EOF behind the last one, or a *LineError for
// a malformed line. Every other error ends the reading.
func (r *Reader) Next() (Line, error) {
	raw, err := r.in.ReadSlice('\n')
	if len(raw) == 0 && err == io.EOF {
		return Line{}, io.EOF
	}
	r.line++
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.in.ReadSlice('\n')
		}
		if err == nil || err == io.EOF {
			return Line{}, &LineError{r.line, fmt.Sprintf("longer than %d bytes", MaxLineBytes)}
		}
	}
	if err != nil && err != io.EOF {
		return Line{}, fmt.Errorf("after line %d: %w", r.line-1, err)
	}
	l, reason := parse(string(bytes.TrimSuffix(raw, []byte("\n"))))
	if reason != "" {
		return Line{}, &LineError{r.line, reason}
	}
	l.Number = r.line
	return l, nil
}

// parse returns the line, or why it is malformed.
func parse(s string) (l Line, reason string) {
	columns := strings.SplitN(s, "\t", 4)
	if len(columns) != 4 {
		return l, fmt.Sprintf("%d columns, want 4 parted by tabs: seconds, topic, size, payload", len(columns))
	}
	var err error
	if l.Time, err = strconv.ParseInt(columns[0], 10, 64); err != nil {
		return l, fmt.Sprintf("time %q is not a whole number of seconds", columns[0])
	}
	l.Topic = columns[1]
	if err := topic.Validate(l.Topic); err != nil {
		return l, err.Error()
	}
	if l.Size, err = strconv.ParseInt(columns[2], 10, 64); err != nil || l.Size < 0 {
		return l, fmt.Sprintf("size %q is not a number of bytes", columns[2])
	}
	l.Short = columns[3]
	return l, ""
}

// Decompress returns the text behind r, whichever way it is compressed.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	default:
		return io.NopCloser(in), nil
	}
}
