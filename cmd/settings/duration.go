package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// day is always 24 hours: ages are of stream time, which knows no clock changes.
const day = 24 * time.Hour

// Duration is a flag for a length of time: 500ms, 15s, 36h, 7d, 1d12h.
type Duration struct {
	value  *time.Duration
	orNone bool
}

// Span is a flag for a time more than 0: never is no span, and no time at all would wait
// for nothing. What p points to before is the default.
func Span(p *time.Duration) *Duration { return &Duration{value: p} }

// SpanOrNone is a flag for a time that may also be 0, which turns something off.
func SpanOrNone(p *time.Duration) *Duration { return &Duration{value: p, orNone: true} }

// Set implements pflag.Value.
func (d *Duration) Set(s string) error {
	v, err := parseDuration(s)
	switch {
	case d.orNone && (err != nil || v < 0):
		return errors.New("want a time with its unit, such as 500ms, 90s, 36h or 7d, or 0")
	case !d.orNone && (err != nil || v <= 0):
		return errors.New("want a time more than 0 with its unit, such as 500ms, 90s, 36h or 7d")
	}
	*d.value = v
	return nil
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

// String implements pflag.Value.
func (d *Duration) String() string {
	if d.value == nil { // pflag asks a zero value for its default
		return "0"
	}
	return DurationString(*d.value)
}

// DurationString is what a flag takes, and as short as a person would write it: 7d, 36h, 90s.
func DurationString(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, none) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// parseDuration is time.ParseDuration with d for days in front.
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if sum := d + more; more >= 0 && sum >= d {
		return sum, err
	}
	return 0, fmt.Errorf("%q is not behind a number of days", rest)
}
