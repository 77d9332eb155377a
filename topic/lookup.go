package topic

import "hash/maphash"

// Unknown is the id of no topic.
const Unknown = ^uint32(0)

// ahead is how many names LookupAll has on their way at a time.
const ahead = 64

// LookupAll puts the ids of names into ids, which is as long, Unknown for those that are not
// in the table. Any goroutine; the names are not kept.
//
// With a million topics each step of a lookup (slot, entry, name) waits for memory, and in
// Lookup each for the one before. Here a step is made for many names before the next one is:
// the processor waits for all of them at once.
func (t *Table) LookupAll(names [][]byte, ids []uint32) {
	for len(names) > 0 {
		n := min(ahead, len(names))
		t.lookupSome(names[:n], ids)
		names, ids = names[n:], ids[n:]
	}
}

func (t *Table) lookupSome(names [][]byte, ids []uint32) {
	var at [ahead]uint64 // slots
	var stored [ahead]string
	var firsts [ahead]byte
	var left [ahead]uint8 // indexes of the names whose place is not clear yet
	n := uint8(len(names))
	for i := range n {
		at[i], left[i] = maphash.Bytes(t.seed, names[i]), i
	}
	for slots := *t.byName.slots.Load(); n > 0; {
		for _, i := range left[:n] {
			ids[i] = slots[at[i]&uint64(len(slots)-1)].Load() - 1
			at[i]++
		}
		for _, i := range left[:n] {
			if stored[i] = ""; ids[i] != Unknown {
				stored[i] = t.topics.at(ids[i]).name
			}
		}
		for _, i := range left[:n] {
			if firsts[i] = 0; stored[i] != "" {
				firsts[i] = stored[i][0]
			}
		}
		again := uint8(0)
		for _, i := range left[:n] {
			if ids[i] != Unknown && (len(names[i]) == 0 || firsts[i] != names[i][0] || stored[i] != string(names[i])) {
				left[again] = i
				again++
			}
		}
		n = again
	}
}
