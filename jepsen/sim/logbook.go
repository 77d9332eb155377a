package sim

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// logbook writes log lines under their virtual time, as they come: a history may end
// in a panic.
type logbook struct {
	mu  sync.Mutex
	out io.Writer // nil for none
}

func (l *logbook) line(at time.Duration, who, text string) {
	if l.out == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%12v %s %s\n", at, who, strings.TrimSpace(text))
}

func (l *logbook) level() hclog.Level {
	if l.out != nil {
		return hclog.Debug
	}
	return hclog.Off
}

func (l *logbook) of(m *machine) *logWriter { return &logWriter{m} }

type logWriter struct{ m *machine }

// Write implements io.Writer.
func (w *logWriter) Write(p []byte) (int, error) {
	w.m.c.log.line(time.Since(w.m.c.begin), w.m.name, string(p))
	return len(p), nil
}
