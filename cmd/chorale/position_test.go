package main

import (
	"testing"
	"time"
)

func TestPosition(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("UTC+2", 2*3600))
	for in, want := range map[string]position{
		"first":                {first: true},
		"tip":                  {tip: true},
		"1":                    {seq: 1},
		"2026":                 {seq: 2026},
		"-2h":                  {at: now.Add(-2 * time.Hour)},
		"-3d":                  {at: now.Add(-72 * time.Hour)},
		"-1d12h":               {at: now.Add(-36 * time.Hour)},
		"2026-03-09":           {at: time.Date(2026, 3, 9, 0, 0, 0, 0, now.Location())},
		"2026-03-09 08:30":     {at: time.Date(2026, 3, 9, 8, 30, 0, 0, now.Location())},
		"2026-03-09T08:30:01Z": {at: time.Date(2026, 3, 9, 8, 30, 1, 0, time.UTC)},
	} {
		got, err := parsePosition(in, now)
		if err != nil || got.first != want.first || got.tip != want.tip || got.seq != want.seq || !got.at.Equal(want.at) {
			t.Errorf("%s: got %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0", "-", "-2", "2h", "last", "2026-13-01", "-1dx", "-70000d"} {
		if got, err := parsePosition(in, now); err == nil {
			t.Errorf("%q was taken as %+v", in, got)
		}
	}
}
