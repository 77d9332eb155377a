package main

import (
	"testing"
	"time"
)

func TestByteSize(t *testing.T) {
	for in, want := range map[string]byteSize{
		"0": 0, "1048576": 1 << 20, "64KiB": 64 << 10, "1.5GiB": 3 << 29, "10 MB": 10e6, "7B": 7, "2TB": 2e12,
	} {
		var got byteSize
		if err := got.Set(in); err != nil || got != want {
			t.Errorf("%s: got %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "MiB", "1 gig", "1e30", "NaN", "10000000TiB", "Inf"} {
		var got byteSize
		if err := got.Set(in); err == nil {
			t.Errorf("%q was taken as %d", in, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for in, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 256 << 20: "256 MiB", 5 << 40: "5 TiB"} {
		if got := formatBytes(in); got != want {
			t.Errorf("%d: got %s", in, got)
		}
	}
	for in, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := formatCount(in); got != want {
			t.Errorf("%d: got %s", in, got)
		}
	}
}

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

func TestAddresses(t *testing.T) {
	list := []string{"default:1"}
	a := &addresses{list: &list}
	for _, in := range []string{"a:1, b:2", "c:3"} {
		if err := a.Set(in); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.String(); got != "a:1,b:2,c:3" {
		t.Errorf("got %s", got)
	}
	if err := a.Set("a:1,,b:2"); err == nil {
		t.Error("an empty address was taken")
	}
}
