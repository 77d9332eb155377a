package plans

import (
	"testing"

	"chorale/segments"
)

// Inputs are whole ranges: a layer is taken with all its stores.
func TestPlanFits(t *testing.T) {
	h := func(i byte) segments.Hash { return segments.Hash{i} }
	m := segments.Manifest{Files: []segments.FileMeta{
		{First: 1, Last: 9, Hash: h(1)}, {First: 1, Last: 9, Hash: h(2)},
		{First: 10, Last: 19, Hash: h(3)},
		{First: 20, Last: 29, Hash: h(4)}, {First: 20, Last: 29, Hash: h(5)},
	}}
	for _, c := range []struct {
		inputs []segments.Hash
		want   bool
	}{
		{[]segments.Hash{h(1), h(2)}, true},
		{[]segments.Hash{h(3)}, true},
		{[]segments.Hash{h(1), h(2), h(3), h(4), h(5)}, true},
		{[]segments.Hash{h(1)}, false},
		{[]segments.Hash{h(2), h(3)}, false},
		{[]segments.Hash{h(3), h(4)}, false},
		{[]segments.Hash{h(4), h(5), h(6)}, false},
		{[]segments.Hash{h(1), h(2), h(4), h(5)}, false},
		{[]segments.Hash{h(2), h(1)}, false},
		{[]segments.Hash{h(6)}, false},
	} {
		if got := (Plan{Inputs: c.inputs, Stores: 1}).Fits(m); got != c.want {
			t.Errorf("%v: %v", c.inputs, got)
		}
	}
}
