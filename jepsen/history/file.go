package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is one line of a history file: exactly one field is set.
type line struct {
	Unit    *Unit    `json:"unit,omitempty"`
	Attempt *Attempt `json:"attempt,omitempty"`
	Read    *Read    `json:"read,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
}

// Write writes the history as lines of JSON: units, attempts, faults, reads, each
// in its order.
func (h *History) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	var err error
	put := func(l line) {
		if err == nil {
			err = e.Encode(l)
		}
	}
	for i := range h.Units {
		put(line{Unit: &h.Units[i]})
	}
	for i := range h.Attempts {
		put(line{Attempt: &h.Attempts[i]})
	}
	for i := range h.Faults {
		put(line{Fault: &h.Faults[i]})
	}
	for i := range h.Reads {
		put(line{Read: &h.Reads[i]})
	}
	return errors.Join(err, b.Flush())
}

// Parse reads what Write wrote.
func Parse(r io.Reader) (*History, error) {
	h, d := &History{}, json.NewDecoder(r)
	for n := 1; ; n++ {
		var l line
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF):
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("line %d of the history: %w", n, err)
		}
		switch {
		case l.Unit != nil:
			h.Units = append(h.Units, *l.Unit)
		case l.Attempt != nil:
			h.Attempts = append(h.Attempts, *l.Attempt)
		case l.Read != nil:
			h.Reads = append(h.Reads, *l.Read)
		case l.Fault != nil:
			h.Faults = append(h.Faults, *l.Fault)
		default:
			return nil, fmt.Errorf("line %d of the history says nothing", n)
		}
	}
}
