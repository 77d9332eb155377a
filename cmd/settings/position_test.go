package settings

import (
	"testing"
	"time"
)

func TestPosition(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("UTC+2", 2*3600))
	for in, want := range map[string]Position{
		"first":                {First: true},
		"tip":                  {Tip: true},
		"1":                    {Seq: 1},
		"2026":                 {Seq: 2026},
		"-2h":                  {At: now.Add(-2 * time.Hour)},
		"-3d":                  {At: now.Add(-72 * time.Hour)},
		"-1d12h":               {At: now.Add(-36 * time.Hour)},
		"2026-03-09":           {At: time.Date(2026, 3, 9, 0, 0, 0, 0, now.Location())},
		"2026-03-09 08:30":     {At: time.Date(2026, 3, 9, 8, 30, 0, 0, now.Location())},
		"2026-03-09T08:30:01Z": {At: time.Date(2026, 3, 9, 8, 30, 1, 0, time.UTC)},
	} {
		got, err := ParsePosition(in, now)
		if err != nil || got.First != want.First || got.Tip != want.Tip || got.Seq != want.Seq || !got.At.Equal(want.At) {
			t.Errorf("%s: got %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "0", "-", "-2", "2h", "last", "2026-13-01", "-1dx", "-70000d", "--5h", "-1d-48h", "2026-03-10 12:01", "2999-01-01"} {
		if got, err := ParsePosition(in, now); err == nil {
			t.Errorf("%q was taken as %+v", in, got)
		}
	}
}
