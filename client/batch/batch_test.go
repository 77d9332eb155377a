package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"chorale/api"
	"chorale/message"

	"pgregory.net/rapid"
)

// note is a resolver that writes down what it is told.
type note struct{ lines *[]string }

func (n note) Resolve(o Outcome, err error) {
	line := fmt.Sprintf("%v %d %d", o.Kind, o.Seq, o.Index)
	if err != nil {
		line = err.Error()
	}
	*n.lines = append(*n.lines, line)
}

// of builds a batch of units with so many messages each.
func of(lines *[]string, units ...int) *Batch {
	b := &Batch{First: 5}
	for _, n := range units {
		b.Add(Unit{To: note{lines}, Messages: n}, make([]message.Entry, n))
	}
	return b
}

func run(kind api.Outcome_Kind, seq uint64, units, index uint32) *api.Outcome {
	return &api.Outcome{Kind: kind, Seq: seq, Units: units, Index: index}
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer  *api.PublishResponse
		want    string // what the units learn, or what the answer is instead
		nothing bool
	}{
		"all stored": {&api.PublishResponse{Outcomes: []*api.Outcome{run(api.Outcome_STORED, 10, 3, 0)}},
			"STORED 10 0, STORED 11 0, STORED 13 0", false},
		"mixed": {&api.PublishResponse{Outcomes: []*api.Outcome{
			run(api.Outcome_DUPLICATE, 4, 2, 0), run(api.Outcome_CONDITION_FAILED, 9, 1, 1)}},
			"DUPLICATE 4 0, DUPLICATE 5 0, CONDITION_FAILED 9 1", false},
		"forgotten": {&api.PublishResponse{Outcomes: []*api.Outcome{run(api.Outcome_DUPLICATE_FORGOTTEN, 0, 3, 0)}},
			"DUPLICATE_FORGOTTEN 0 0, DUPLICATE_FORGOTTEN 0 0, DUPLICATE_FORGOTTEN 0 0", false},
		"gap":      {&api.PublishResponse{Outcomes: []*api.Outcome{run(api.Outcome_NUMBER_GAP, 3, 3, 0)}}, "the producer's next number is 3", true},
		"unknown":  {&api.PublishResponse{Outcomes: []*api.Outcome{run(api.Outcome_PRODUCER_UNKNOWN, 0, 3, 0)}}, ErrUnknownProducer.Error(), true},
		"too few":  {&api.PublishResponse{Outcomes: []*api.Outcome{run(api.Outcome_STORED, 10, 2, 0)}}, "outcomes of 2 units for 3", false},
		"too many": {&api.PublishResponse{Outcomes: []*api.Outcome{run(api.Outcome_STORED, 10, 2, 0), run(api.Outcome_STORED, 10, 1<<31, 0)}}, "units for 3", false},
		"empty":    {&api.PublishResponse{}, "outcomes of 0 units", false},
		"no kind":  {&api.PublishResponse{Outcomes: []*api.Outcome{run(0, 10, 3, 0)}}, "outcome UNSPECIFIED", false},
		"invalid":  {&api.PublishResponse{Error: &api.PublishError{Kind: api.PublishError_INVALID, Message: "bad"}}, "bad", true},
		"busy":     {&api.PublishResponse{Error: &api.PublishError{Kind: api.PublishError_UNAVAILABLE, Message: "busy"}}, "busy", true},
		"lost":     {&api.PublishResponse{Error: &api.PublishError{Kind: api.PublishError_UNKNOWN, Message: "lost"}}, "lost", false},
		"new kind": {&api.PublishResponse{Error: &api.PublishError{Kind: 77, Message: "?"}}, "?", false},
	} {
		var lines []string
		b := of(&lines, 1, 2, 1)
		err := b.Decided(test.answer)
		if err == nil {
			b.Resolve(test.answer)
		} else {
			lines = append(lines, err.Error())
		}
		if got := strings.Join(lines, ", "); !strings.Contains(got, test.want) || got == "" {
			t.Errorf("%s: %s", name, got)
		}
		if err != nil && StoresNothing(err) != test.nothing {
			t.Errorf("%s: stores nothing: %v", name, !test.nothing)
		}
	}
}

func TestFail(t *testing.T) {
	var lines []string
	of(&lines, 2, 1).Fail(errors.New("why"))
	if fmt.Sprint(lines) != "[why why]" {
		t.Fatal(lines)
	}
}

// TestPartIsThatPart: any cut of a batch, under any numbers, has the units, the
// messages and the conditions that it had.
func TestPartIsThatPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		producer := message.ProducerID{1}
		whole := &Batch{First: rapid.Uint64Range(1, 1<<40).Draw(t, "first"), Uncertain: rapid.Bool().Draw(t, "uncertain")}
		var units [][]message.Entry
		for range rapid.IntRange(1, 8).Draw(t, "units") {
			var entries []message.Entry
			for range rapid.IntRange(1, 4).Draw(t, "messages") {
				entries = append(entries, drawEntry(t))
			}
			units = append(units, entries)
			whole.Add(Unit{Messages: len(entries), Bytes: len(units)}, entries)
		}
		whole.Encode(producer)
		from := rapid.IntRange(0, len(units)).Draw(t, "from")
		to := rapid.IntRange(from, len(units)).Draw(t, "to")
		first := rapid.Uint64Range(1, 1<<40).Draw(t, "new first")
		part := whole.Part(from, to, first)
		if part.First != first || part.Next() != first+uint64(to-from) || part.Uncertain != whole.Uncertain {
			t.Fatalf("%+v", part)
		}
		if from == to {
			return
		}
		want := &Batch{First: first}
		for _, entries := range units[from:to] {
			want.Add(Unit{Messages: len(entries)}, entries)
		}
		want.Encode(producer)
		part.Encode(producer)
		if string(part.Frame.BatchBytes()) != string(want.Frame.BatchBytes()) {
			t.Fatalf("%x\nwant %x", part.Frame.BatchBytes(), want.Frame.BatchBytes())
		}
		if _, err := message.ParseBatch(part.Frame.BatchBytes()); err != nil {
			t.Fatal(err)
		}
		for i, u := range part.Units {
			if u.Bytes != from+i+1 {
				t.Fatalf("unit %d is unit %d of the whole", i, u.Bytes-1)
			}
		}
	})
}

func drawEntry(t *rapid.T) message.Entry {
	e := message.Entry{Topic: rapid.SampledFrom([]string{"a", "a/b", "c"}).Draw(t, "topic")}
	e.Draft.Payload = rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "payload")
	for range rapid.IntRange(0, 2).Draw(t, "headers") {
		e.Draft.Headers = append(e.Draft.Headers, message.Header{Key: "k", Value: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "value")})
	}
	if rapid.Bool().Draw(t, "condition") {
		seq := rapid.Uint64Max(9).Draw(t, "expected")
		e.Expected = &seq
	}
	return e
}

func TestResetForgetsEverything(t *testing.T) {
	var lines []string
	b := of(&lines, 3, 1)
	b.Uncertain = true
	b.Encode(message.ProducerID{1})
	b.Reset()
	b.First = 9
	b.Add(Unit{Messages: 1}, make([]message.Entry, 1))
	b.Encode(message.ProducerID{2})
	v, err := message.ParseBatch(b.Frame.BatchBytes())
	if err != nil || v.Count != 1 || v.Producer != (message.ProducerID{2}) || b.Uncertain || len(b.Units) != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
	if r, _, _ := message.Split(v.Records); r.Number() != 9 {
		t.Fatalf("number %d", r.Number())
	}
}
