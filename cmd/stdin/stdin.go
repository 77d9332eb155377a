// Package stdin reads what is piped or typed into a command.
package stdin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"chorale/message"
)

// MaxLineBytes bounds a line: the largest payload and a topic fit.
const MaxLineBytes = message.MaxPayloadBytes + 2048

// Lines yields the lines of stdin until ctx ends, and the error if they end badly. A
// line ends in LF or CR LF, neither of which is part of it.
func Lines(ctx context.Context, in io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := bufio.NewScanner(Interruptible(ctx, in))
		s.Buffer(nil, MaxLineBytes)
		n := 1
		for ; s.Scan(); n++ {
			if !yield(s.Text(), nil) {
				return
			}
		}
		if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield("", fmt.Errorf("line %d of stdin: at most %s are allowed", n, message.Size(MaxLineBytes)))
		} else if err != nil {
			yield("", err)
		}
	}
}

// Interruptible reads in until ctx ends: then every read returns the context's
// error. A read of a terminal or of a pipe cannot be interrupted, so it has a
// goroutine of its own, which ends with the input or with the process.
func Interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
}
