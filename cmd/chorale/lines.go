package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"chorale/message"
)

// maxLineBytes bounds a line of stdin: the largest payload and a topic fit.
const maxLineBytes = message.MaxPayloadBytes + 2048

// lines yields the lines of stdin until ctx ends, and the error if they end badly.
func lines(ctx context.Context, in io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := bufio.NewScanner(interruptible(ctx, in))
		s.Buffer(nil, maxLineBytes)
		n := 1
		for ; s.Scan(); n++ {
			if !yield(s.Text(), nil) {
				return
			}
		}
		if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield("", fmt.Errorf("line %d of stdin: at most %d bytes are allowed", n, maxLineBytes))
		} else if err != nil {
			yield("", err)
		}
	}
}

// interruptible reads in until ctx ends: then every read returns the context's
// error. A read of a terminal or of a pipe cannot be interrupted, so it has a
// goroutine of its own, which ends with the input or with the process.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r
}
