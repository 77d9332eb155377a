package show

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress is a bar on a terminal, and nothing elsewhere; the zero value is nothing. Safe for concurrent
// use.
type Progress struct{ bar *progressbar.ProgressBar }

// NewProgress shows how much of total is done; -1 means that nobody knows.
func NewProgress(w io.Writer, total int64, unit string) *Progress {
	if !IsTerminal(w) {
		return &Progress{}
	}
	return &Progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString(unit),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(24),
	)}
}

// Set says how much is done.
func (p *Progress) Set(n int64) {
	if p.bar != nil {
		p.bar.Set64(n)
	}
}

// Close takes the bar off the terminal.
func (p *Progress) Close() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
