// Package check holds the checkers of a history: small functions, each of which
// looks for one kind of anomaly and can be shown to find it.
//
// All take the final stream, as a reader of everything got it after the cluster
// was healed, as the truth, and compare what clients were told with it; Same and
// Chain judge the stream itself.
package check

import (
	"bytes"
	"fmt"

	"chorale/jepsen/history"
	"chorale/jepsen/model"
	"chorale/topic"
)

// Finding is one anomaly.
type Finding struct {
	Check string // the anomaly's name
	Text  string
}

// String is the finding as one line.
func (f Finding) String() string { return f.Check + ": " + f.Text }

// maxFindings of one checker are worth reading.
const maxFindings = 10

// findings collects what one checker found.
type findings struct {
	name string
	list []Finding
}

func (f *findings) add(format string, args ...any) {
	if len(f.list) < maxFindings {
		f.list = append(f.list, Finding{f.name, fmt.Sprintf(format, args...)})
	}
}

// All runs every checker that needs nothing but a history and the final stream.
func All(h *history.History, stream []history.Message) []Finding {
	out := Chain(stream)
	p, more := Place(h, stream)
	out = append(out, more...)
	for _, c := range []func(*Placed) []Finding{
		Lost, Misplaced, Resurrected, Torn, Reordered, Answers, Conditions, RealTime,
	} {
		out = append(out, c(p)...)
	}
	return append(out, Reads(h.Reads, stream)...)
}

// Chain finds what no stream may have whatever was published: a seq out of turn, a
// prev that is not the topic's previous message, a time that runs back.
func Chain(stream []history.Message) []Finding {
	f := findings{name: "broken-chain"}
	last, time := map[string]uint64{}, int64(0)
	for i, m := range stream {
		if want := uint64(i) + 1; m.Seq != want {
			f.add("place %d holds %v", want, m)
		}
		if m.Prev != last[m.Topic] {
			f.add("%v: the topic's previous message is %d", m, last[m.Topic])
		}
		if m.Time < time {
			f.add("%v: %d ns before its predecessor", m, time-m.Time)
		}
		last[m.Topic], time = m.Seq, max(time, m.Time)
	}
	return f.list
}

// Same finds the first place where two nodes' streams differ.
func Same(nameA string, a []history.Message, nameB string, b []history.Message) []Finding {
	f := findings{name: "diverged"}
	if len(a) != len(b) {
		f.add("%s holds %d messages, %s %d", nameA, len(a), nameB, len(b))
	}
	for i := range min(len(a), len(b)) {
		if !equal(a[i], b[i]) {
			f.add("place %d: %s has %v, %s has %v", i+1, nameA, a[i], nameB, b[i])
			break
		}
	}
	return f.list
}

func equal(a, b history.Message) bool {
	return a.Seq == b.Seq && a.Prev == b.Prev && a.Time == b.Time && a.Topic == b.Topic && bytes.Equal(a.Body, b.Body)
}

// Reads finds a reader that was not delivered exactly what its filters match in
// the stretch that its sessions say they covered, or whose sessions do not
// continue each other.
func Reads(reads []history.Read, stream []history.Message) []Finding {
	f := findings{name: "wrong-read"}
	ends := map[int]uint64{}
	for _, r := range reads {
		end, resumed := ends[r.Reader]
		switch {
		case resumed && r.After != end:
			f.add("reader %d on %s starts behind %d, it stopped at %d", r.Reader, r.Node, r.After, end)
		case !resumed && r.FromTime != 0:
			skippedByTime(&f, r, stream)
		}
		ends[r.Reader] = r.To
		if r.To > uint64(len(stream)) {
			f.add("reader %d on %s read to %d, the stream ends at %d", r.Reader, r.Node, r.To, len(stream))
		}
		compare(&f, r, model.Select(stream, r.Filters, r.After, r.To))
	}
	return f.list
}

// skippedByTime finds a start by time that jumps over messages it should deliver.
func skippedByTime(f *findings, r history.Read, stream []history.Message) {
	expired := r.After < r.Oldest // it starts with what is left
	if n := r.After; n > 0 && n <= uint64(len(stream)) && stream[n-1].Time >= r.FromTime && !expired {
		f.add("reader %d on %s from time %d starts behind %v", r.Reader, r.Node, r.FromTime, stream[n-1])
	}
}

// compare looks for the first message that was delivered and not wanted, or the other way
// round, but for those that a floor explains which the reader was told.
func compare(f *findings, r history.Read, want []history.Message) {
	got := r.Messages
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(want) > 0 && len(got) > 0 && equal(want[0], got[0]):
			if Gone(r.Gone, got[0]) {
				f.add("reader %d on %s %q (%d, %d]: delivered %v, which had gone", r.Reader, r.Node, r.Filters, r.After, r.To, got[0])
				return
			}
			want, got = want[1:], got[1:]
		case len(want) > 0 && Gone(r.Floors, want[0]):
			want = want[1:]
		case len(want) == 0:
			f.add("reader %d on %s %q (%d, %d]: delivered %v too much", r.Reader, r.Node, r.Filters, r.After, r.To, got[0])
			return
		case len(got) == 0:
			f.add("reader %d on %s %q (%d, %d]: lacks %v", r.Reader, r.Node, r.Filters, r.After, r.To, want[0])
			return
		default:
			f.add("reader %d on %s %q (%d, %d]: delivered %v instead of %v", r.Reader, r.Node, r.Filters, r.After, r.To, got[0], want[0])
			return
		}
	}
}

// Gone reports whether a message lies below one of the floors.
func Gone(floors []history.Floor, m history.Message) bool {
	for _, f := range floors {
		if m.Seq >= f.Seq {
			continue
		}
		filters, err := topic.ParseFilters(f.Filter)
		if err != nil || filters.Match(m.Topic) {
			return err == nil
		}
	}
	return false
}
