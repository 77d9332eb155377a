// Package model is the stream as the simplest program that behaves like it: a
// slice of messages, a filter function and a step function. It shares no code with
// the product, so that a misunderstanding must be made twice to go unnoticed.
package model

import (
	"sort"
	"strings"

	"chorale/jepsen/history"
)

// Match reports whether any filter matches the topic: level by level, "*" one
// level, a last "**" the topic before it and everything below.
func Match(filters []string, topic string) bool {
	for _, f := range filters {
		if matchLevels(strings.Split(f, "/"), strings.Split(topic, "/")) {
			return true
		}
	}
	return false
}

func matchLevels(filter, topic []string) bool {
	switch {
	case len(filter) == 1 && filter[0] == "**":
		return true
	case len(filter) == 0 || len(topic) == 0:
		return len(filter) == len(topic)
	case filter[0] != "*" && filter[0] != topic[0]:
		return false
	}
	return matchLevels(filter[1:], topic[1:])
}

// Select is what a subscriber to filters must be delivered of the stream in
// (after, to]. The stream is in the order of its seqs.
func Select(stream []history.Message, filters []string, after, to uint64) []history.Message {
	var out []history.Message
	wanted := map[string]bool{}
	first := sort.Search(len(stream), func(i int) bool { return stream[i].Seq > after })
	for _, m := range stream[first:] {
		if m.Seq > to {
			break
		}
		match, asked := wanted[m.Topic]
		if !asked {
			match = Match(filters, m.Topic)
			wanted[m.Topic] = match
		}
		if match {
			out = append(out, m)
		}
	}
	return out
}

// Outcome is what became of a unit.
type Outcome struct {
	Result history.Result
	Seq    uint64
	Index  uint32
}

// State is a stream with its producers. The zero value is empty.
type State struct {
	Stream    []history.Message
	time      int64
	last      map[string]uint64
	producers map[int]map[uint64]Outcome
}

// Advance lets the stream's time come to now.
func (s *State) Advance(now int64) { s.time = max(s.time, now) }

// Time is the newest time that the stream knows of, in ns.
func (s *State) Time() int64 { return s.time }

// Step applies one unit at the leader's time now, as the log holds it. Producers
// are remembered for ever.
func (s *State) Step(now int64, u history.Unit) Outcome {
	if s.last == nil {
		s.last, s.producers = map[string]uint64{}, map[int]map[uint64]Outcome{}
	}
	s.Advance(now)
	if u.Number == 0 {
		return s.store(u)
	}
	known := s.producers[u.Client]
	if first, ok := known[u.Number]; ok {
		if first.Result == history.Stored {
			first.Result = history.Duplicate
		}
		return first
	}
	switch next := uint64(len(known)) + 1; {
	case len(known) == 0 && u.Number != 1:
		return Outcome{Result: history.ProducerUnknown}
	case u.Number != next:
		return Outcome{Result: history.Gap, Seq: next}
	case len(known) == 0:
		s.producers[u.Client] = map[uint64]Outcome{}
	}
	o := s.store(u)
	s.producers[u.Client][u.Number] = o
	return o
}

// store checks the conditions against the stream before the unit, then appends.
func (s *State) store(u history.Unit) Outcome {
	for i, m := range u.Messages {
		if m.Expected != nil && *m.Expected != s.last[m.Topic] {
			return Outcome{Result: history.Refused, Seq: s.last[m.Topic], Index: uint32(i)}
		}
	}
	first := uint64(len(s.Stream)) + 1
	for _, m := range u.Messages {
		seq := uint64(len(s.Stream)) + 1
		s.Stream = append(s.Stream, history.Message{Seq: seq, Prev: s.last[m.Topic], Time: s.time, Topic: m.Topic, Body: m.Body})
		s.last[m.Topic] = seq
	}
	return Outcome{Result: history.Stored, Seq: first}
}
