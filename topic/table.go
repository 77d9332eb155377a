package topic

import (
	"fmt"
	"hash/maphash"
	"math"
	"unsafe"
)

// Table interns names and their partitions. Ids are dense, from 0, in the order
// of Intern. One goroutine interns; any number read without a lock.
type Table struct {
	topics     list[entry]
	partitions list[partition]
	byName     index
	byPart     index
	seed       maphash.Seed // places slots in memory; never seen from outside
	arena      []byte       // the writer's: free bytes for names
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	t.byName.init()
	t.byPart.init()
	return t
}

// arenaBytes is the size of the arrays that names are packed into. A name that
// does not fit the rest of one starts the next: at most 1,023 bytes are lost.
const arenaBytes = 64 << 10

// Intern returns the id of a valid name and whether it is new. It keeps no
// reference to the bytes. One goroutine at a time.
//
// What is published first is valid first: partition < Partitions() holds for
// every topic that Len, Lookup or EachTopicOf shows.
func (t *Table) Intern(name []byte) (id uint32, fresh bool) {
	hash := maphash.Bytes(t.seed, name)
	if id, ok := t.byName.find(hash, func(id uint32) bool { return t.topics.at(id).name == string(name) }); ok {
		return id, false
	}
	id = t.topics.len()
	if id == math.MaxUint32 {
		panic(fmt.Sprintf("topic: %d topics are interned, the limit is %d", id, uint32(math.MaxUint32)))
	}
	e := t.topics.grow()
	e.name = t.copyName(name)
	e.partition = t.join(id, Partition(e.name))
	t.topics.publish()
	t.byName.insert(hash, id, t.hash)
	return id, true
}

// Reserve makes room for so many further topics at once, which Intern would make bit by
// bit. It is for who interns.
func (t *Table) Reserve(topics uint32) { t.byName.reserve(t.topics.len(), topics, t.hash) }

func (t *Table) hash(id uint32) uint64 { return maphash.String(t.seed, t.topics.at(id).name) }

// join adds topic id, not yet published, to its partition.
func (t *Table) join(id uint32, name string) (p uint32) {
	hash := maphash.String(t.seed, name)
	if p, ok := t.findPartition(hash, name); ok {
		e := t.partitions.at(p)
		t.topics.at(e.last).next.Store(id)
		e.last = id
		return p
	}
	p = t.partitions.len()
	*t.partitions.grow() = partition{name: name, first: id, last: id}
	t.partitions.publish()
	t.byPart.insert(hash, p, func(p uint32) uint64 { return maphash.String(t.seed, t.partitions.at(p).name) })
	return p
}

// copyName packs a name into the arena. The bytes of an arena are written once,
// before a string over them is published, so the string is immutable.
func (t *Table) copyName(name []byte) string {
	if len(name) == 0 {
		return ""
	}
	if cap(t.arena)-len(t.arena) < len(name) {
		t.arena = make([]byte, 0, max(arenaBytes, len(name)))
	}
	start := len(t.arena)
	t.arena = append(t.arena, name...)
	return unsafe.String(&t.arena[start], len(name))
}

// Lookup finds the id of a name.
func (t *Table) Lookup(name string) (id uint32, ok bool) {
	return t.byName.find(maphash.String(t.seed, name), func(id uint32) bool { return t.topics.at(id).name == name })
}

// LookupPartition finds the id of a partition by its name.
func (t *Table) LookupPartition(name string) (p uint32, ok bool) {
	return t.findPartition(maphash.String(t.seed, name), name)
}

func (t *Table) findPartition(hash uint64, name string) (uint32, bool) {
	return t.byPart.find(hash, func(p uint32) bool { return t.partitions.at(p).name == name })
}

// Name is the name of an id below Len.
func (t *Table) Name(id uint32) string { return t.topics.get(id).name }

// Len is the number of topics.
func (t *Table) Len() uint32 { return t.topics.len() }

// Partition is the partition id of a topic.
func (t *Table) Partition(id uint32) uint32 { return t.topics.get(id).partition }

// Partitions is the number of partitions; ids are dense from 0, in the order of
// their first topics.
func (t *Table) Partitions() uint32 { return t.partitions.len() }

// PartitionName is the name of a partition.
func (t *Table) PartitionName(p uint32) string { return t.partitions.get(p).name }

// EachTopicOf calls f with the ids of a partition's topics, ascending, until f
// returns false. It shows the topics that were interned before the call.
func (t *Table) EachTopicOf(p uint32, f func(id uint32) bool) {
	n := t.topics.len()
	for id := t.partitions.get(p).first; id < n; {
		if !f(id) {
			return
		}
		next := t.topics.at(id).next.Load()
		if next == 0 {
			return
		}
		id = next
	}
}
