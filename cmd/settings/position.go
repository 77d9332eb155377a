package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Position is where a subscription starts.
type Position struct {
	First bool      // the oldest kept message
	Tip   bool      // the live end
	Seq   uint64    // this seq, inclusive; 0 means none of this kind
	At    time.Time // the first message of this time or later
}

// layouts of an absolute time, the local zone where it names none.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// ParsePosition reads first, tip, a seq, a time, or how long before now. A time
// in the future is an error: what comes until then would be delivered all the same.
func ParsePosition(s string, now time.Time) (Position, error) {
	p, err := readPosition(s, now)
	if err == nil && p.At.After(now) {
		err = fmt.Errorf("position %q lies in the future; tip is the next message that is stored", s)
	}
	return p, err
}

func readPosition(s string, now time.Time) (Position, error) {
	switch s {
	case "first":
		return Position{First: true}, nil
	case "tip":
		return Position{Tip: true}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		return Position{Seq: n}, nil
	}
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		if d, err := parseDuration(ago); err == nil {
			return Position{At: now.Add(-d)}, nil
		}
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return Position{At: t}, nil
		}
	}
	return Position{}, fmt.Errorf("position %q: want first, tip, a seq from 1 on, a time such as 2026-01-31T09:00:00Z or 2026-01-31, or an age such as -2h or -3d", s)
}
