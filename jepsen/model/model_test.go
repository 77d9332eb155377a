package model

import (
	"testing"

	"chorale/jepsen/history"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a", false},
		{"a/b", "a/b/c", false},
		{"a/**", "a", true},
		{"a/**", "a/b/c", true},
		{"a/**", "ab", false},
		{"**", "x/y/z", true},
		{"a/*/c", "a/b/c", true},
		{"a/*/c", "a/b/d", false},
		{"a/*/c", "a/c", false},
		{"*/**", "a", true},
		{"a/*/**", "a/b", true},
		{"a/*/**", "a", false},
	} {
		if got := Match([]string{c.filter}, c.topic); got != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.filter, c.topic, got, c.want)
		}
	}
}

func unit(client int, number uint64, ms ...history.Draft) history.Unit {
	return history.Unit{Client: client, Number: number, Messages: ms}
}

func TestStep(t *testing.T) {
	var s State
	zero, one := uint64(0), uint64(1)
	a, b := history.Draft{Topic: "a"}, history.Draft{Topic: "b"}
	aNew := history.Draft{Topic: "a", Expected: &zero}
	aAt1 := history.Draft{Topic: "a", Expected: &one}
	for i, c := range []struct {
		u    history.Unit
		want Outcome
	}{
		{unit(1, 2, a), Outcome{Result: history.ProducerUnknown}},
		{unit(1, 1, aNew, b), Outcome{Result: history.Stored, Seq: 1}},
		{unit(1, 1, aNew, b), Outcome{Result: history.Duplicate, Seq: 1}},
		{unit(1, 3, a), Outcome{Result: history.Gap, Seq: 2}},
		{unit(1, 2, b, aNew), Outcome{Result: history.Refused, Seq: 1, Index: 1}},
		{unit(2, 0, aAt1), Outcome{Result: history.Stored, Seq: 3}},
		{unit(1, 2, b, aNew), Outcome{Result: history.Refused, Seq: 1, Index: 1}},
		{unit(1, 3, a), Outcome{Result: history.Stored, Seq: 4}},
	} {
		if got := s.Step(int64(10-i), c.u); got != c.want {
			t.Errorf("step %d: %+v, want %+v", i, got, c.want)
		}
	}
	if len(s.Stream) != 4 || s.Stream[3].Prev != 3 || s.Stream[3].Time != 10 {
		t.Errorf("stream %v", s.Stream)
	}
	if got := Select(s.Stream, []string{"a"}, 1, 3); len(got) != 1 || got[0].Seq != 3 {
		t.Errorf("selected %v", got)
	}
}
