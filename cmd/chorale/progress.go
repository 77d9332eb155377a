package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing elsewhere. Safe for concurrent
// use.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress shows how much of total is done; -1 means that nobody knows.
func newProgress(w io.Writer, total int64, unit string) *progress {
	if !isTerminal(w) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(unit),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(24),
	)}
}

func (p *progress) set(n int64) {
	if p.bar != nil {
		p.bar.Set64(n)
	}
}

// grow raises what is to be done.
func (p *progress) grow(total int64) {
	if p.bar != nil && total > p.bar.GetMax64() {
		p.bar.ChangeMax64(total)
	}
}

// close takes the bar off the terminal.
func (p *progress) close() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

// isTerminal reports whether a person watches w.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
