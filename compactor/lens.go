package compactor

import (
	"math"
	"slices"
)

// Lens is how a layout looks to readers who each read one topic, or one subtree,
// once. A ratio is bytes read over bytes wanted.
type Lens struct {
	Readers      int
	SumWaste     float64 // bytes, over all readers
	MaxWaste     float64
	MaxWasteOf   string
	WorstRatio   float64
	WorstRatioOf string
	MedianRatio  float64
	P99Ratio     float64
	// Amplification is all bytes read over all bytes wanted: every reader's ratio
	// weighted by its bytes.
	Amplification float64
}

// Access says what of a store a reader has to read.
type Access int

const (
	// WholeStores are read to the end.
	WholeStores Access = iota
	// ThroughBlockIndex reads the blocks that hold a wanted message, in a store that does
	// not keep its topics apart (format version 1): a topic's messages are taken to lie
	// anywhere in it with the same chance.
	ThroughBlockIndex
)

// BlockBytes is the raw size of a store's block.
const BlockBytes = 64 << 10

// read is how many of a store's bytes must be read for some of its messages.
func (a Access) read(store, wanted uint64, messages uint64) float64 {
	if a == WholeStores || wanted >= store {
		return float64(store)
	}
	blocks := math.Ceil(float64(store) / BlockBytes)
	touched := -blocks * math.Expm1(float64(messages)*math.Log1p(-1/blocks))
	return min(float64(store), max(float64(wanted), touched*BlockBytes))
}

// inners are the nodes that have levels below them, but for the root.
func (t *Tree) inners() []int32 {
	nodes := make([]int32, 0, len(t.parent))
	for node := int32(1); int(node) < len(t.parent); node++ {
		if t.inner[node] {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Look judges a layout by what the reader of each single topic and of each subtree
// (every level that has levels below it) must read.
func Look(t *Tree, s Split, a Access) (topics, subtrees Lens) {
	stores := s.bytesOf(t)
	reads := make([]float64, len(t.Topics))
	for i, store := range s.StoreOf {
		v := t.Topics[i]
		reads[i] = a.read(stores[store], v.Bytes, v.Messages)
	}
	topics = lensOf(len(reads), func(i int) (float64, float64, string) {
		return reads[i], float64(t.Topics[i].Bytes), t.Topics[i].Topic
	})
	below, wanted := t.subtreeReads(s, stores, a)
	nodes := t.inners()
	subtrees = lensOf(len(nodes), func(i int) (float64, float64, string) {
		return below[nodes[i]], wanted[nodes[i]], ""
	})
	subtrees.MaxWasteOf = t.subtreeName(nodes, func(n int32) bool { return below[n]-wanted[n] == subtrees.MaxWaste })
	subtrees.WorstRatioOf = t.subtreeName(nodes, func(n int32) bool {
		return wanted[n] > 0 && below[n]/wanted[n] == subtrees.WorstRatio
	})
	return topics, subtrees
}

func (t *Tree) subtreeName(nodes []int32, is func(int32) bool) string {
	if i := slices.IndexFunc(nodes, is); i >= 0 {
		return t.name(nodes[i]) + "/**"
	}
	return ""
}

// subtreeReads sums, for every node, what must be read of the stores that its
// subtree touches, and the subtree's own bytes. Costs the depth of every topic.
func (t *Tree) subtreeReads(s Split, stores []uint64, a Access) (reads, wanted []float64) {
	reads, wanted = make([]float64, len(t.parent)), make([]float64, len(t.parent))
	part := make([]Volume, len(t.parent)) // of the store at hand, below each node
	mark := make([]int32, len(t.parent))
	touched := make([]int32, 0, 64)
	for store, topics := range s.members() {
		touched = touched[:0]
		for _, topic := range topics {
			v := t.Topics[topic]
			for node := t.node[topic]; node > 0; node = t.parent[node] {
				if mark[node] != int32(store)+1 {
					mark[node], part[node] = int32(store)+1, Volume{}
					touched = append(touched, node)
				}
				part[node].Bytes += v.Bytes
				part[node].Messages += v.Messages
			}
		}
		for _, node := range touched {
			reads[node] += a.read(stores[store], part[node].Bytes, part[node].Messages)
			wanted[node] += float64(part[node].Bytes)
		}
	}
	return reads, wanted
}

// members lists the topics of each store, by counting sort.
func (s Split) members() [][]int32 {
	ends := make([]int32, s.Stores)
	for _, store := range s.StoreOf {
		ends[store]++
	}
	all := make([]int32, len(s.StoreOf))
	lists := make([][]int32, s.Stores)
	at := int32(0)
	for store, n := range ends {
		lists[store] = all[at : at : at+n]
		at += n
	}
	for topic, store := range s.StoreOf {
		lists[store] = append(lists[store], int32(topic))
	}
	return lists
}

func lensOf(n int, reader func(i int) (read, wanted float64, name string)) Lens {
	l := Lens{Readers: n}
	ratios := make([]float64, 0, n)
	allRead, allWanted := 0.0, 0.0
	for i := range n {
		read, wanted, name := reader(i)
		allRead, allWanted = allRead+read, allWanted+wanted
		if waste := read - wanted; waste > l.MaxWaste {
			l.MaxWaste, l.MaxWasteOf = waste, name
		}
		if wanted == 0 {
			continue
		}
		ratios = append(ratios, read/wanted)
		if ratio := read / wanted; ratio > l.WorstRatio {
			l.WorstRatio, l.WorstRatioOf = ratio, name
		}
	}
	l.SumWaste = allRead - allWanted
	if len(ratios) > 0 {
		slices.Sort(ratios)
		l.MedianRatio = ratios[len(ratios)/2]
		l.P99Ratio = ratios[len(ratios)*99/100]
		l.Amplification = allRead / allWanted
	}
	return l
}
