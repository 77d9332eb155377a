package format

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// The list table of a store says which blocks hold a topic. It lists the topics by
// ascending id, each as
//
//	uvarint  id - id of the topic before - 1 (of the first: the id)
//	uvarint  runs of blocks
//	runs     of neighbouring blocks, as long as they can be, ascending, each as
//	         uvarint  2 * blocks that are passed over, at least one of which parts two
//	                  runs and is not counted; + 1 if the run has several blocks
//	         uvarint  then: blocks of the run - 2
//
// It stands apart from the topic table, because readers know ids: they need no names,
// which are most of what there is to say about a topic.

const listEntryBytes = 3 // at least

// lists is the decoded table: the runs stay as they are, which is compact.
type lists struct {
	table []byte
	ids   []uint32 // ascending
	ends  []uint32 // of each topic's runs in table
}

// All lists all blocks.
func (x *StoreIndex) All() []uint32 {
	out := make([]uint32, len(x.Blocks))
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

// Topics lists the ids of the topics, ascending. Not to be changed.
func (x *StoreIndex) Topics() []uint32 { return x.ids }

// Wanted lists the blocks that hold a topic that is wanted, ascending.
func (x *StoreIndex) Wanted(wanted func(id uint32) bool) []uint32 {
	marks := make([]bool, len(x.Blocks))
	n := 0
	for i, id := range x.ids {
		if wanted(id) {
			x.each(i, func(from, to uint32) {
				for b := from; b < to; b++ {
					if !marks[b] {
						marks[b] = true
						n++
					}
				}
			})
		}
	}
	out := make([]uint32, 0, n)
	for b, marked := range marks {
		if marked {
			out = append(out, uint32(b))
		}
	}
	return out
}

// each calls f with every run of the i-th topic.
func (l *lists) each(i int, f func(from, to uint32)) {
	b := l.table[:l.ends[i]]
	if i > 0 {
		b = b[l.ends[i-1]:]
	}
	_, n := binary.Uvarint(b) // id
	b = b[n:]
	_, n = binary.Uvarint(b) // runs
	b = b[n:]
	at := uint32(0)
	for len(b) > 0 {
		var from, to uint32
		from, to, b, _ = takeRun(b, at)
		f(from, to)
		at = to + 1
	}
}

// takeRun takes a run off b that begins at block at or later. False if there is none.
func takeRun(b []byte, at uint32) (from, to uint32, rest []byte, ok bool) {
	var f [2]uint64
	if b, ok = takeUvarints(b, f[:1]); !ok {
		return 0, 0, b, false
	}
	length := uint64(1)
	if f[0]&1 == 1 {
		if b, ok = takeUvarints(b, f[1:]); !ok || f[1] > math.MaxUint32 {
			return 0, 0, b, false
		}
		length = f[1] + 2
	}
	start := uint64(at) + f[0]>>1
	if start+length > math.MaxUint32 {
		return 0, 0, b, false
	}
	return uint32(start), uint32(start + length), b, true
}

// decodeLists checks order and limits, and that no block is without a topic.
func decodeLists(b []byte, topics uint32, blocks int) (lists, error) {
	if uint64(topics)*listEntryBytes > uint64(len(b)) || len(b) > math.MaxUint32 {
		return lists{}, fmt.Errorf("%w: lists of %d topics in %d bytes", ErrCorrupt, topics, len(b))
	}
	l := lists{table: b, ids: make([]uint32, 0, topics), ends: make([]uint32, 0, topics)}
	marks := make([]bool, blocks)
	next := uint64(0)
	for i := range topics {
		var f [2]uint64
		var ok bool
		if b, ok = takeUvarints(b, f[:]); !ok || f[0] > math.MaxUint32-next || f[1] == 0 {
			return lists{}, fmt.Errorf("%w: list %d: %d runs for topic +%d", ErrCorrupt, i, f[1], f[0])
		}
		at := uint32(0)
		for range f[1] {
			var from, to uint32
			if from, to, b, ok = takeRun(b, at); !ok || int(to) > blocks {
				return lists{}, fmt.Errorf("%w: list %d has blocks up to %d of %d", ErrCorrupt, i, to, blocks)
			}
			for m := from; m < to; m++ {
				marks[m] = true
			}
			at = to + 1
		}
		l.ids = append(l.ids, uint32(next+f[0]))
		l.ends = append(l.ends, uint32(len(l.table)-len(b)))
		next += f[0] + 1
	}
	if i := slices.Index(marks, false); i >= 0 || len(b) > 0 {
		return lists{}, fmt.Errorf("%w: block %d has no topic; %d bytes are over", ErrCorrupt, i, len(b))
	}
	return l, nil
}

// list builds the runs of one topic.
type list struct {
	id       uint32
	runs     uint32
	from, to uint32 // the run that grows; to 0 for none
	at       uint32 // where the next run can begin
	encoded  []byte
}

// add notes that the block holds the topic; blocks come in ascending order.
func (l *list) add(block uint32) {
	switch {
	case l.to == block+1:
	case l.to == block && l.to > 0:
		l.to++
	default:
		l.end()
		l.from, l.to = block, block+1
	}
}

func (l *list) end() {
	if l.to == 0 {
		return
	}
	gap := uint64(l.from-l.at) << 1
	if l.to-l.from == 1 {
		l.encoded = binary.AppendUvarint(l.encoded, gap)
	} else {
		l.encoded = binary.AppendUvarint(l.encoded, gap|1)
		l.encoded = binary.AppendUvarint(l.encoded, uint64(l.to-l.from-2))
	}
	l.runs++
	l.at, l.to = l.to+1, 0
}

// appendLists encodes the table. The lists are ended and sorted by that.
func appendLists(b []byte, all []*list) []byte {
	slices.SortFunc(all, func(a, b *list) int { return cmp.Compare(a.id, b.id) })
	next := uint32(0)
	for _, l := range all {
		l.end()
		b = binary.AppendUvarint(b, uint64(l.id-next))
		b = binary.AppendUvarint(b, uint64(l.runs))
		b = append(b, l.encoded...)
		next = l.id + 1
	}
	return b
}
