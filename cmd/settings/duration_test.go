package settings

import (
	"testing"
	"testing/quick"
	"time"
)

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"15s": 15 * time.Second, "1m30s": 90 * time.Second, "1ns": 1, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
	} {
		var span, orNone time.Duration
		if err := Span(&span).Set(in); err != nil || span != want {
			t.Errorf("%s: got %s, %v", in, span, err)
		}
		if err := SpanOrNone(&orNone).Set(in); err != nil || orNone != want {
			t.Errorf("%s: got %s, %v", in, orNone, err)
		}
	}
	for _, in := range []string{"0", "0s", "0d", "0d0h"} {
		kept, none := time.Second, time.Second
		if err := Span(&kept).Set(in); err == nil || kept != time.Second {
			t.Errorf("%q was taken as a span of %s", in, kept)
		}
		if err := SpanOrNone(&none).Set(in); err != nil || none != 0 {
			t.Errorf("%q: got %s, %v", in, none, err)
		}
	}
	for _, in := range []string{"", "-1s", "15", "soon", "d", "-1d", "1.5d", "1d-12h", "1d-48h", "1dx", "1d1d", "70000d", "65535d2000000h", "9999999999h"} {
		got := time.Second
		for _, flag := range []*Duration{Span(&got), SpanOrNone(&got)} {
			if err := flag.Set(in); err == nil || got != time.Second {
				t.Errorf("%q was taken as %s", in, got)
			}
		}
	}
}

// TestDurationString: what is shown is what can be given.
func TestDurationString(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 168 * time.Hour: "7d", 36 * time.Hour: "36h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s",
		20 * time.Minute: "20m", 10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s", 10 * time.Hour: "10h",
	} {
		if got := DurationString(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
	back := func(n uint32, unit uint8) bool {
		want := time.Duration(n%100_000) * []time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour, day}[unit%6]
		if want > 65_535*day { // 179 years
			want %= day
		}
		var got time.Duration
		err := SpanOrNone(&got).Set(DurationString(want))
		return err == nil && got == want
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
}
