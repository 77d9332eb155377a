// Package compactor decides which topics share a store: adaptive split, the rivals
// it is judged by, and the lenses through which layouts are compared. Everything
// here is a pure function of its input.
package compactor

import (
	"slices"
	"strings"

	"chorale/topic"
)

// Volume is what one topic holds in the range being compacted.
type Volume struct {
	Topic    string
	Bytes    uint64
	Messages uint64
}

// Tree is the topics' tree with their volumes, in preorder: a node's parent comes
// before it, so a walk backwards sees children before parents. Node 0 is the root
// above all names. Immutable.
type Tree struct {
	// Topics are the volumes in tree order; indexes into it are the topics below.
	Topics []Volume
	parent []int32
	topic  []int32 // index into Topics of the topic that ends here, or -1
	node   []int32 // of each topic
	inner  []bool  // has children
}

// NewTree sorts the volumes into a tree. Topics are valid names, each once.
func NewTree(volumes []Volume) *Tree {
	t := &Tree{
		Topics: slices.Clone(volumes),
		parent: []int32{-1}, topic: []int32{-1},
		node: make([]int32, len(volumes)),
	}
	slices.SortFunc(t.Topics, func(a, b Volume) int { return topic.Compare(a.Topic, b.Topic) })
	path := []int32{0}  // nodes from the root to the last topic
	var levels []string // their names, without the root
	for i, v := range t.Topics {
		common, rest := commonLevels(levels, v.Topic)
		path, levels = path[:common+1], levels[:common]
		for rest != "" {
			level, tail, _ := strings.Cut(rest, "/")
			t.parent = append(t.parent, path[len(path)-1])
			t.topic = append(t.topic, -1)
			path = append(path, int32(len(t.parent)-1))
			levels, rest = append(levels, level), tail
		}
		last := path[len(path)-1]
		t.topic[last], t.node[i] = int32(i), last
	}
	t.inner = make([]bool, len(t.parent))
	for _, p := range t.parent[1:] {
		t.inner[p] = true
	}
	return t
}

// commonLevels counts the leading levels that name shares with levels and
// returns what of the name follows them.
func commonLevels(levels []string, name string) (n int, rest string) {
	rest = name
	for _, want := range levels {
		level, tail, _ := strings.Cut(rest, "/")
		if level != want {
			break
		}
		n, rest = n+1, tail
	}
	return n, rest
}

// Split is a layout: which store each topic of a tree goes to.
type Split struct {
	Stores  int
	StoreOf []int32 // by topic of the tree; 0 <= StoreOf[i] < Stores
}

// bytesOf sums the volume of each store.
func (s Split) bytesOf(t *Tree) []uint64 {
	sum := make([]uint64, s.Stores)
	for i, store := range s.StoreOf {
		sum[store] += t.Topics[i].Bytes
	}
	return sum
}

// Name is the name of a node: its levels joined; empty for the root.
func (t *Tree) name(node int32) string {
	depth := 0
	for n := node; n > 0; n = t.parent[n] {
		depth++
	}
	topic := t.firstTopic(node)
	if topic < 0 || depth == 0 {
		return ""
	}
	name := t.Topics[topic].Topic
	for end := range len(name) {
		if name[end] == '/' {
			if depth--; depth == 0 {
				return name[:end]
			}
		}
	}
	return name
}

// firstTopic is the first topic at or below a node: in preorder every node without
// one is followed by its first child.
func (t *Tree) firstTopic(node int32) int32 {
	for int(node) < len(t.topic) {
		if t.topic[node] >= 0 {
			return t.topic[node]
		}
		node++
	}
	return -1
}
