package fetching

import (
	"context"
	"sync"
	"time"
)

// limit lets so many bytes pass in a second, of all files together.
type limit struct {
	rate int64 // 0 is no limit

	mu  sync.Mutex
	due time.Time // when all that was let pass has passed at the rate
}

// piece is how much is asked for at once: a sixteenth of a second of the rate.
func (l *limit) piece() int64 {
	if l.rate == 0 {
		return pieceMax
	}
	return min(max(l.rate/16, pieceMin), pieceMax)
}

// wait waits until so many bytes may be asked for.
func (l *limit) wait(ctx context.Context, bytes int64) error {
	if l.rate == 0 {
		return ctx.Err()
	}
	l.mu.Lock()
	now := time.Now()
	if l.due.Before(now) {
		l.due = now
	}
	t := time.NewTimer(l.due.Sub(now))
	l.due = l.due.Add(l.time(bytes))
	l.mu.Unlock()
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		l.refund(bytes)
	}
	return ctx.Err()
}

// refund gives back what did not come, or takes what came beyond what was asked for.
func (l *limit) refund(bytes int64) {
	if l.rate == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = l.due.Add(-l.time(bytes))
}

func (l *limit) time(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / float64(l.rate) * float64(time.Second))
}

// window is how many seconds the meter looks back.
const window = 10

// meter tells how many bytes came a second, lately.
type meter struct {
	seconds     [window]struct{ at, bytes int64 }
	begun, last time.Time
}

func (m *meter) add(now time.Time, bytes int64) {
	if now.Sub(m.last) > window*time.Second {
		m.begun = now
	}
	m.last = now
	s := &m.seconds[now.Unix()%window]
	if s.at != now.Unix() {
		s.at, s.bytes = now.Unix(), 0
	}
	s.bytes += bytes
}

func (m *meter) rate(now time.Time) float64 {
	var sum int64
	for _, s := range m.seconds {
		if now.Unix()-s.at < window {
			sum += s.bytes
		}
	}
	return float64(sum) / min(max(now.Sub(m.begun).Seconds(), 1), window)
}
