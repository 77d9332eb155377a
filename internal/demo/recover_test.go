package main

import (
	"slices"
	"strings"
	"testing"

	"chorale/client"
	"chorale/internal/tsv"
	"chorale/topic"
)

// TestComparison spoils a right delivery in every way that the demo must notice.
func TestComparison(t *testing.T) {
	s := &stream{}
	var right []client.Delivery
	for i, name := range []string{"a/x", "b/x", "a/y", "a/x", "b/y", "a/z"} {
		line := tsv.Line{Number: uint64(i + 1), Topic: name, Size: 50, Short: "short"}
		s.messages = append(s.messages, line)
		if strings.HasPrefix(name, "a/") {
			right = append(right, client.Delivery{Seq: line.Number, Topic: name, Payload: line.Payload(nil, payloadCap)})
		}
	}
	check := func(list []client.Delivery) error {
		filters, err := topic.ParseFilters("a/**")
		if err != nil {
			t.Fatal(err)
		}
		c := comparison{stream: s, filters: filters}
		for _, d := range list {
			if err := c.message(d); err != nil {
				return err
			}
		}
		return c.end()
	}
	if err := check(right); err != nil {
		t.Fatal(err)
	}
	spoil := func(f func([]client.Delivery) []client.Delivery) error { return check(f(slices.Clone(right))) }
	for name, f := range map[string]func([]client.Delivery) []client.Delivery{
		"first missing": func(l []client.Delivery) []client.Delivery { return l[1:] },
		"last missing":  func(l []client.Delivery) []client.Delivery { return l[:3] },
		"all missing":   func([]client.Delivery) []client.Delivery { return nil },
		"repeated":      func(l []client.Delivery) []client.Delivery { return slices.Insert(l, 1, l[0]) },
		"swapped":       func(l []client.Delivery) []client.Delivery { l[1], l[2] = l[2], l[1]; return l },
		"one too many": func(l []client.Delivery) []client.Delivery {
			return append(l, client.Delivery{Seq: 7, Topic: "a/z"})
		},
		"other topic": func(l []client.Delivery) []client.Delivery { l[1].Topic = "a/q"; return l },
		"other seq":   func(l []client.Delivery) []client.Delivery { l[3].Seq = 7; return l },
		"other payload": func(l []client.Delivery) []client.Delivery {
			l[1].Payload = append(slices.Clone(l[1].Payload[:49]), '!')
			return l
		},
		"shorter": func(l []client.Delivery) []client.Delivery { l[1].Payload = l[1].Payload[:49]; return l },
	} {
		if err := spoil(f); err == nil {
			t.Errorf("%s: not noticed", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
