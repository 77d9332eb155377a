package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"chorale/segments"
)

// What a plan, its edit or its end is refused for: data, alike on all nodes.
var (
	// ErrPlanActive is the result of a plan while another one is active.
	ErrPlanActive = errors.New("another plan is active")
	// ErrPlanInputs is the result of a plan whose inputs are not whole neighbouring
	// ranges of the manifest.
	ErrPlanInputs = errors.New("the plan's inputs are not whole neighbouring ranges of the manifest")
	// ErrPlanEdit is the result of an edit that does something else than its plan.
	ErrPlanEdit = errors.New("the edit is not what its plan says")
	// ErrPlanOver is the result of an edit or an end of a plan that is not active.
	ErrPlanOver = errors.New("the plan is not active")
)

// Plan is a piece of work for all nodes: to rewrite files as the stores of one
// layer.
type Plan struct {
	// Inputs are the files of whole neighbouring ranges, in the order of the
	// manifest.
	Inputs []segments.Hash
	// Stores is the most that the layer may have, at least 1.
	Stores uint32
}

// ActivePlan is the plan that the nodes build. At most one is active: from its
// command until its edit, until it is abandoned, or until an edit takes one of its
// inputs away. The zero value is none.
type ActivePlan struct {
	Index uint64 // of its entry in the log: its id
	Plan
}

// The body of a plan's entry, and what a snapshot holds of it; an abandon holds the
// index of the plan alone.
const (
	planHeadBytes = 8
	// maxPlanInputs bounds the files of a plan, maxPlanStores those it may make.
	maxPlanInputs = 1 << 20
	maxPlanStores = 1 << 16
)

// EncodePlan makes the Raft entry of a plan.
func EncodePlan(p Plan) []byte {
	b := appendEntryHead(nil, KindPlan)
	b = binary.LittleEndian.AppendUint32(b, p.Stores)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.Inputs)))
	for _, h := range p.Inputs {
		b = append(b, h[:]...)
	}
	return b
}

func decodePlan(b []byte) (p Plan, err error) {
	if len(b) < planHeadBytes {
		return p, fmt.Errorf("%w: plan of %d bytes", ErrCorrupt, len(b))
	}
	p.Stores = binary.LittleEndian.Uint32(b)
	n := binary.LittleEndian.Uint32(b[4:])
	b = b[planHeadBytes:]
	if n > maxPlanInputs || len(b) != int(n)*len(segments.Hash{}) {
		return p, fmt.Errorf("%w: plan of %d inputs in %d bytes", ErrCorrupt, n, len(b))
	}
	for range n {
		p.Inputs = append(p.Inputs, segments.Hash(b))
		b = b[len(segments.Hash{}):]
	}
	return p, p.check()
}

// check reports a plan that no node can have made.
func (p Plan) check() error {
	if len(p.Inputs) == 0 || p.Stores == 0 || p.Stores > maxPlanStores {
		return fmt.Errorf("%w: plan of %d inputs and %d stores", ErrCorrupt, len(p.Inputs), p.Stores)
	}
	return nil
}

// EncodeAbandon makes the Raft entry that ends the plan with that index without
// effect.
func EncodeAbandon(plan uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendEntryHead(nil, KindAbandon), plan)
}

func (f *FSM) applyPlan(index uint64, p Plan) error {
	switch {
	case f.state.genesis == (Genesis{}):
		return ErrNoGenesis
	case f.state.plan.Index != 0:
		return fmt.Errorf("%w: that of entry %d", ErrPlanActive, f.state.plan.Index)
	case !p.fits(f.history.Manifest()):
		return ErrPlanInputs
	}
	f.setPlan(ActivePlan{index, p})
	return nil
}

func (f *FSM) applyAbandon(plan uint64) error {
	if plan == 0 || plan != f.state.plan.Index {
		return fmt.Errorf("%w: %d", ErrPlanOver, plan)
	}
	f.setPlan(ActivePlan{})
	return nil
}

// fits reports whether the inputs are whole neighbouring ranges of the manifest.
func (p Plan) fits(m segments.Manifest) bool {
	files, start := m.Files, 0
	for start < len(files) && files[start].Hash != p.Inputs[0] {
		start++
	}
	end := start + len(p.Inputs)
	if end > len(files) {
		return false
	}
	for i, h := range p.Inputs {
		if files[start+i].Hash != h {
			return false
		}
	}
	border := func(i int) bool { return i == 0 || i == len(files) || files[i-1].First != files[i].First }
	return border(start) && border(end)
}

// endsWith refuses the edit of a plan that is not this one, or that does something
// else than it says.
func (p ActivePlan) endsWith(e segments.Edit) error {
	switch {
	case e.Plan == 0:
		return nil
	case e.Plan != p.Index:
		return fmt.Errorf("%w: %d", ErrPlanOver, e.Plan)
	case !slices.Equal(e.Remove, p.Inputs) || len(e.Add) > int(p.Stores):
		return fmt.Errorf("%w: it replaces %d files by %d, the plan %d by at most %d", ErrPlanEdit,
			len(e.Remove), len(e.Add), len(p.Inputs), p.Stores)
	}
	return nil
}

func (f *FSM) setPlan(p ActivePlan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.plan = p
	close(f.planned)
	f.planned = make(chan struct{})
}

// Plan is the active plan, or the zero value. The channel is closed when it has
// changed.
func (f *FSM) Plan() (ActivePlan, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.plan, f.planned
}
