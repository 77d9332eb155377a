package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// position is where a subscription starts.
type position struct {
	first bool      // the oldest kept message
	tip   bool      // the live end
	seq   uint64    // this seq, inclusive; 0 means none of this kind
	at    time.Time // the first message of this time or later
}

// layouts of an absolute time, the local zone where it names none.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// parsePosition reads first, tip, a seq, a time, or how long before now.
func parsePosition(s string, now time.Time) (position, error) {
	switch s {
	case "first":
		return position{first: true}, nil
	case "tip":
		return position{tip: true}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && n > 0 {
		return position{seq: n}, nil
	}
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		if d, err := parseAge(ago); err == nil {
			return position{at: now.Add(-d)}, nil
		}
	}
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return position{at: t}, nil
		}
	}
	return position{}, fmt.Errorf("position %q: want first, tip, a seq from 1 on, a time such as 2026-01-31T09:00:00Z or 2026-01-31, or an age such as -2h or -3d", s)
}

// parseAge is time.ParseDuration with d for days of 24 hours in front.
func parseAge(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}
