package check

import (
	"fmt"
	"slices"
	"testing"

	"chorale/jepsen/history"
)

// A checker that cannot fail is a defect: each case spoils one thing in a good
// history and names the anomaly that must be found, and no other.

func ptr(v uint64) *uint64 { return &v }

func draft(topic, body string) history.Draft { return history.Draft{Topic: topic, Body: []byte(body)} }

// good is a history in which everything is right:
//
//	seq 1 a/x  unit 0 (producer 1, number 1)
//	seq 2 a/y  unit 1 (number 2), two messages
//	seq 3 a/x
//	seq 4 b    unit 2 (plain client 2)
//	           unit 3 (number 3) refused: b was expected at 0
//	           unit 4 (plain client 2) unknown, not stored
//	seq 5 b    unit 5 (number 4), expected at 4
func good() (*history.History, []history.Message) {
	h := &history.History{
		Units: []history.Unit{
			{Client: 1, Number: 1, Messages: []history.Draft{draft("a/x", "u0")}},
			{Client: 1, Number: 2, Messages: []history.Draft{draft("a/y", "u1.0"), draft("a/x", "u1.1")}},
			{Client: 2, Messages: []history.Draft{draft("b", "u2")}},
			{Client: 1, Number: 3, Messages: []history.Draft{{Topic: "b", Body: []byte("u3"), Expected: ptr(0)}}},
			{Client: 2, Messages: []history.Draft{draft("b", "u4")}},
			{Client: 1, Number: 4, Messages: []history.Draft{{Topic: "b", Body: []byte("u5"), Expected: ptr(4)}}},
		},
		Attempts: []history.Attempt{
			{Unit: 0, Node: "n1", Invoke: 1, Return: 2, Result: history.Unknown},
			{Unit: 0, Node: "n2", Invoke: 3, Return: 4, Result: history.Duplicate, Seq: 1},
			{Unit: 1, Node: "n2", Invoke: 5, Return: 7, Result: history.Stored, Seq: 2},
			{Unit: 2, Node: "n3", Invoke: 8, Return: 9, Result: history.Stored, Seq: 4},
			{Unit: 3, Node: "n2", Invoke: 10, Return: 11, Result: history.Refused, Seq: 4},
			{Unit: 4, Node: "n3", Invoke: 12, Result: history.Unknown},
			{Unit: 5, Node: "n2", Invoke: 13, Return: 14, Result: history.Stored, Seq: 5},
		},
	}
	stream := []history.Message{
		{Seq: 1, Time: 10, Topic: "a/x", Body: []byte("u0")},
		{Seq: 2, Time: 10, Topic: "a/y", Body: []byte("u1.0")},
		{Seq: 3, Prev: 1, Time: 10, Topic: "a/x", Body: []byte("u1.1")},
		{Seq: 4, Time: 12, Topic: "b", Body: []byte("u2")},
		{Seq: 5, Prev: 4, Time: 13, Topic: "b", Body: []byte("u5")},
	}
	h.Reads = []history.Read{
		{Reader: 1, Node: "n1", Filters: []string{"a/**"}, After: 0, To: 2, Messages: slices.Clone(stream[:2])},
		{Reader: 1, Node: "n2", Filters: []string{"a/**"}, After: 2, To: 4, Messages: slices.Clone(stream[2:3])},
		{Reader: 2, Node: "n3", Filters: []string{"b"}, FromTime: 12, After: 3, To: 5, Messages: slices.Clone(stream[3:])},
	}
	return h, stream
}

func names(fs []Finding) []string {
	var out []string
	for _, f := range fs {
		if !slices.Contains(out, f.Check) {
			out = append(out, f.Check)
		}
	}
	slices.Sort(out)
	return out
}

func TestAGoodHistoryIsGood(t *testing.T) {
	if found := All(good()); len(found) > 0 {
		t.Fatal(found)
	}
}

func TestAFloorExplainsWhatIsMissing(t *testing.T) {
	h, stream := good()
	h.Reads[0].Floors = []history.Floor{{Filter: "a/y", Seq: 2}, {Filter: "a/x/**", Seq: 2}}
	h.Reads[0].Messages = h.Reads[0].Messages[1:]
	if found := All(h, stream); len(found) > 0 {
		t.Fatal(found)
	}
}

func TestEachAnomalyIsFound(t *testing.T) {
	for _, c := range []struct {
		what  string
		spoil func(h *history.History, s []history.Message) []history.Message
		want  []string
	}{
		{"the newest acknowledged message is gone", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[2].To, h.Reads[2].Messages = 4, h.Reads[2].Messages[:1]
			return s[:4]
		}, []string{"lost"}},
		{"a message is in the stream twice", func(h *history.History, s []history.Message) []history.Message {
			return append(s, history.Message{Seq: 6, Prev: 5, Time: 13, Topic: "b", Body: []byte("u2")})
		}, []string{"duplicate"}},
		{"a message that nobody sent", func(h *history.History, s []history.Message) []history.Message {
			return append(s, history.Message{Seq: 6, Time: 13, Topic: "c", Body: []byte("stranger")})
		}, []string{"unexpected"}},
		{"a message under another topic", func(h *history.History, s []history.Message) []history.Message {
			h.Units[2].Messages[0].Topic = "c"
			return s
		}, []string{"lost", "unexpected"}},
		{"an ack with another seq", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[3].Seq = 3
			return s
		}, []string{"misplaced"}},
		{"a refused unit is stored", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[3] = history.Attempt{Unit: 2, Node: "n3", Invoke: 8, Return: 9, Result: history.Refused, Seq: 0}
			h.Units[2].Messages[0].Expected = ptr(1)
			return s
		}, []string{"resurrected", "wrong-condition"}},
		{"a failed unit is stored", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[3].Result = history.Failed
			return s
		}, []string{"resurrected"}},
		{"half a unit is stored", func(h *history.History, s []history.Message) []history.Message {
			s[2].Body = []byte("u4")
			h.Units[4].Messages[0].Topic = "a/x"
			h.Reads[1].Messages[0].Body = []byte("u4")
			h.Attempts[5].Invoke = 3
			return s
		}, []string{"torn-unit"}},
		{"a producer's units change places", func(h *history.History, s []history.Message) []history.Message {
			h.Units[0].Number, h.Units[1].Number = 2, 1
			h.Units[0], h.Units[1] = h.Units[1], h.Units[0]
			for i := range h.Attempts[:3] {
				h.Attempts[i].Unit = 1 - h.Attempts[i].Unit
			}
			return s
		}, []string{"nonmonotonic-producer"}},
		{"a producer's number is left out", func(h *history.History, s []history.Message) []history.Message {
			h.Units[4].Client, h.Units[4].Number = 1, 4
			h.Units[5].Number = 5
			return s
		}, []string{"nonmonotonic-producer"}},
		{"a retry is answered differently", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts = append(h.Attempts, history.Attempt{Unit: 3, Node: "n1", Invoke: 20, Return: 21, Result: history.Refused, Seq: 5})
			return s
		}, []string{"changed-answer", "wrong-condition"}},
		{"a retry is stored again", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[0].Result, h.Attempts[0].Seq = history.Stored, 1
			h.Attempts[1].Result = history.Stored
			return s
		}, []string{"changed-answer"}},
		{"stored though the condition did not hold", func(h *history.History, s []history.Message) []history.Message {
			h.Units[5].Messages[0].Expected = ptr(1)
			return s
		}, []string{"wrong-condition"}},
		{"refused though the condition held", func(h *history.History, s []history.Message) []history.Message {
			h.Units[3].Messages[0].Expected = ptr(4)
			return s
		}, []string{"wrong-condition"}},
		{"refused for what was true only later", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[4].Seq = 5
			return s
		}, []string{"wrong-condition"}},
		{"refused for what was true only earlier", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[4].Seq, h.Units[3].Messages[0].Expected = 0, ptr(9)
			return s
		}, []string{"wrong-condition"}},
		{"stored before what was acknowledged before", func(h *history.History, s []history.Message) []history.Message {
			h.Attempts[3].Invoke, h.Attempts[3].Return = 15, 16
			return s
		}, []string{"back-in-time", "wrong-condition"}},
		{"a seq is left out", func(h *history.History, s []history.Message) []history.Message {
			s[4].Seq, h.Reads[2].Messages[1].Seq, h.Reads[2].To, h.Attempts[6].Seq = 6, 6, 6, 6
			return s
		}, []string{"broken-chain", "wrong-read"}},
		{"a prev is wrong", func(h *history.History, s []history.Message) []history.Message {
			s[2].Prev, h.Reads[1].Messages[0].Prev = 0, 0
			return s
		}, []string{"broken-chain"}},
		{"time runs back", func(h *history.History, s []history.Message) []history.Message {
			s[1].Time, h.Reads[0].Messages[1].Time = 9, 9
			return s
		}, []string{"broken-chain"}},
		{"a reader lacks a message", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[0].Messages = h.Reads[0].Messages[:1]
			return s
		}, []string{"wrong-read"}},
		{"a reader lacks a message that no floor explains", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[0].Floors = []history.Floor{{Filter: "a/**", Seq: 2}, {Filter: "b/**", Seq: 9}}
			h.Reads[0].Messages = h.Reads[0].Messages[:1]
			return s
		}, []string{"wrong-read"}},
		{"a reader gets what had gone", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[0].Gone = []history.Floor{{Filter: "a/x", Seq: 2}}
			return s
		}, []string{"wrong-read"}},
		{"a reader gets a message twice", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[1].Messages = append(h.Reads[1].Messages, s[2])
			return s
		}, []string{"wrong-read"}},
		{"a reader gets what it did not ask for", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[1].Messages = append(h.Reads[1].Messages, s[3])
			return s
		}, []string{"wrong-read"}},
		{"a reader gets other bytes", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[1].Messages[0].Body = []byte("?")
			return s
		}, []string{"wrong-read"}},
		{"a reader's session skips a stretch", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[1].After, h.Reads[1].Messages = 3, nil
			return s
		}, []string{"wrong-read"}},
		{"a reader is told of a future that is not there", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[2].To = 9
			return s
		}, []string{"wrong-read"}},
		{"a start by time skips messages", func(h *history.History, s []history.Message) []history.Message {
			h.Reads[2].After, h.Reads[2].Messages = 4, h.Reads[2].Messages[1:]
			return s
		}, []string{"wrong-read"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			h, s := good()
			s = c.spoil(h, s)
			if got := names(All(h, s)); !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v\n%v", got, c.want, All(h, s))
			}
		})
	}
}

func TestSame(t *testing.T) {
	_, a := good()
	_, b := good()
	if f := Same("n1", a, "n2", b); len(f) > 0 {
		t.Error(f)
	}
	b[3].Time++
	if f := Same("n1", a, "n2", b); len(f) != 1 {
		t.Errorf("a difference in place 4: %v", f)
	}
	if f := Same("n1", a, "n2", b[:3]); len(f) != 1 {
		t.Errorf("a short stream: %v", f)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	f := findings{name: "x"}
	for i := range 100 {
		f.add("%d", i)
	}
	if len(f.list) != maxFindings || fmt.Sprint(f.list[0]) != "x: 0" {
		t.Error(f.list)
	}
}
