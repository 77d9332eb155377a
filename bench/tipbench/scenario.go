// Package tipbench profiles recovery from the tip: what a linear pass over the ring
// costs, what the product's way costs, and what the indexes alone would cost, all in
// one run over the same ring; and what readers cost the writer.
package tipbench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"chorale/message"
	"chorale/tip"
)

// Ring says what the tip is filled with. Equal rings are filled once.
type Ring struct {
	// Data is a sample stream (the format of import) instead of drawn messages; its
	// payloads have the stream's sizes, up to MessageBytes.
	Data         string `json:"data,omitempty"`
	RingBytes    int64  `json:"ring_bytes"`
	MessageBytes int    `json:"message_bytes"` // payload
	Partitions   int    `json:"partitions"`
	Topics       int    `json:"topics"` // a partition
	// Skew is the exponent of the partitions' sizes: 0 alike, 1 as 1/rank.
	Skew float64 `json:"skew"`
	// Run is the mean number of messages of one partition in a row.
	Run  int    `json:"run"`
	Seed uint64 `json:"seed"`
}

// Scenario is one measurement.
type Scenario struct {
	Ring
	// Readers recover at once, each other subtrees.
	Readers int `json:"readers"`
	// Selectivity is the part of the messages that a reader wants: of whole
	// partitions, or of single topics if it is less than a partition. 0 means one
	// topic of the largest partition, of middling size.
	Selectivity float64 `json:"selectivity"`
	// Writer lets a writer append meanwhile.
	Writer bool `json:"writer"`
}

// Options of a run. Lists are combined with each other; empty ones and zero values
// mean the defaults.
type Options struct {
	Data          string
	RingBytes     []int64
	MessageBytes  []int
	Partitions    []int
	Topics        []int
	Skew          []float64
	Run           []int
	Readers       []int
	Selectivities []float64
	Writer        bool
	Seed          uint64
	// Scenarios, if there are any, are measured instead of the combinations.
	Scenarios []Scenario
	Rounds    int
	// Step is told what is done, and how far the run is.
	Step func(what string, done, total int)
}

// ReadScenarios reads a scenario file: {"scenarios": [...]}. The JSON of a report is
// one, so a run can be repeated from its results.
func ReadScenarios(r io.Reader) ([]Scenario, error) {
	var file struct {
		Scenarios []Scenario `json:"scenarios"`
	}
	if err := json.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("scenario file: %w", err)
	}
	if len(file.Scenarios) == 0 {
		return nil, errors.New(`scenario file: no "scenarios"`)
	}
	return file.Scenarios, nil
}

func orElse[T any](list []T, or ...T) []T {
	if len(list) == 0 {
		return or
	}
	return list
}

// scenarios are the combinations, grouped by ring.
func (o Options) scenarios() ([]Scenario, error) {
	list := o.Scenarios
	if len(list) == 0 {
		for _, ring := range o.rings() {
			for _, readers := range orElse(o.Readers, 1) {
				for _, part := range orElse(o.Selectivities, 0.001, 0.01, 0.1, 1) {
					list = append(list, Scenario{Ring: ring, Readers: readers, Selectivity: part, Writer: o.Writer})
				}
			}
		}
	}
	for i := range list {
		if err := list[i].complete(); err != nil {
			return nil, fmt.Errorf("scenario %d: %w", i+1, err)
		}
	}
	return list, nil
}

func (o Options) rings() (rings []Ring) {
	for _, bytes := range orElse(o.RingBytes, 256<<20) {
		for _, message := range orElse(o.MessageBytes, 0) {
			for _, partitions := range orElse(o.Partitions, 1000) {
				for _, topics := range orElse(o.Topics, 1) {
					for _, skew := range orElse(o.Skew, 0) {
						for _, run := range orElse(o.Run, 1) {
							rings = append(rings, Ring{o.Data, bytes, message, partitions, topics, skew, run, o.Seed})
						}
					}
				}
			}
		}
	}
	return rings
}

// complete fills in what a scenario file may leave out, and checks the rest.
func (s *Scenario) complete() error {
	if s.MessageBytes == 0 {
		s.MessageBytes = 128
		if s.Data != "" {
			s.MessageBytes = 1024
		}
	}
	for _, p := range []*int{&s.Partitions, &s.Topics, &s.Run, &s.Readers} {
		*p = max(*p, 1)
	}
	switch {
	case s.RingBytes < tip.MinBytes || s.RingBytes > tip.MaxBytes:
		return fmt.Errorf("a ring of %d bytes: %d to %d are allowed", s.RingBytes, tip.MinBytes, int64(tip.MaxBytes))
	case s.MessageBytes < 0 || s.MessageBytes > message.MaxPayloadBytes:
		return fmt.Errorf("messages of %d bytes: up to %d are allowed", s.MessageBytes, message.MaxPayloadBytes)
	case s.Selectivity < 0 || s.Selectivity > 1 || math.IsNaN(s.Selectivity):
		return fmt.Errorf("selectivity %g: 0 to 1 are allowed", s.Selectivity)
	case s.Skew < 0 || s.Skew > 4 || math.IsNaN(s.Skew):
		return fmt.Errorf("skew %g: 0 to 4 are allowed", s.Skew)
	case s.Readers > 10_000 || s.Partitions > 1<<20 || s.Topics > 1<<20:
		return errors.New("at most 10,000 readers, and 1,048,576 partitions and topics, are allowed")
	}
	return nil
}
