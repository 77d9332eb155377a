package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// byteSize is a flag for an amount of memory or disk: 1048576, 64KiB, 1.5GiB.
type byteSize int64

// units are ordered so that no unit is the end of one tried before it.
var units = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

func (b *byteSize) Set(s string) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || v < 0 || v*u.bytes >= math.MaxInt64 || math.IsNaN(v) {
			break
		}
		*b = byteSize(v * u.bytes)
		return nil
	}
	return fmt.Errorf("want a number of bytes such as 1048576, 64KiB, 256MiB or 8GiB")
}

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string { return formatBytes(uint64(*b)) }

// formatBytes prints a size in the largest unit that keeps it at 1 or more.
func formatBytes(n uint64) string {
	for _, u := range units[:4] {
		if f := float64(n) / u.bytes; f >= 1 {
			return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + " " + u.name
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}

// formatCount prints a number with its thousands parted.
func formatCount(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// choice is a flag with a fixed set of values.
type choice struct {
	value   string
	allowed []string
}

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) {
		return fmt.Errorf("allowed are %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}

func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

func (c *choice) String() string { return c.value }

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

// addresses is a flag for a list of host:port, parted by commas.
type addresses struct {
	list *[]string
	set  bool // the default is replaced, not added to
}

func (a *addresses) Set(s string) error {
	var list []string
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return fmt.Errorf("want host:port, several parted by commas")
		}
		list = append(list, part)
	}
	if a.set {
		list = append(*a.list, list...)
	}
	*a.list, a.set = list, true
	return nil
}

func (a *addresses) Type() string { return "host:port,..." }

func (a *addresses) String() string {
	if a.list == nil {
		return ""
	}
	return strings.Join(*a.list, ",")
}
