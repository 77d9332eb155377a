package compactor

import "math"

// Fixed3 is the usual heuristic: topics that share their first three levels share
// a store; a topic with fewer levels has its own.
func Fixed3(t *Tree) Split {
	return keyed(t, func(name string) string {
		if third, ok := cutLevels(name, 3); ok {
			return third + "/"
		}
		return name
	})
}

// PerPartition gives each topic partition a store.
func PerPartition(t *Tree) Split {
	return keyed(t, func(name string) string {
		if second, ok := cutLevels(name, 2); ok {
			return second
		}
		return name
	})
}

// cutLevels returns the first n levels of a name that has at least n.
func cutLevels(name string, n int) (string, bool) {
	for i := range len(name) {
		if name[i] == '/' {
			if n--; n == 0 {
				return name[:i], true
			}
		}
	}
	return name, n == 1
}

// PerTopic gives each topic a store.
func PerTopic(t *Tree) Split {
	s := Split{Stores: len(t.Topics), StoreOf: make([]int32, len(t.Topics))}
	for i := range s.StoreOf {
		s.StoreOf[i] = int32(i)
	}
	return s
}

// keyed puts topics with the same key together, numbered by first topic.
func keyed(t *Tree, key func(string) string) Split {
	numbers := make(map[string]int32)
	s := Split{StoreOf: make([]int32, len(t.Topics))}
	for i, v := range t.Topics {
		k := key(v.Topic)
		n, ok := numbers[k]
		if !ok {
			n = int32(len(numbers))
			numbers[k] = n
		}
		s.StoreOf[i] = n
	}
	s.Stores = len(numbers)
	return s
}

// LowerBound is a sum of wasted bytes over all topics that no split into that many
// stores can undercut, whatever its structure: the best partition without a tree
// is one of consecutive topics in the order of volume, and Lagrange's dual of the
// budget bounds it from below for every price.
func LowerBound(t *Tree, stores int) float64 {
	topics := make([]bundle, len(t.Topics))
	next := make([]int32, len(t.Topics))
	var p partition
	best := 0.0
	lo, hi := 0.0, math.Log(math.MaxFloat64)/4
	for range 64 {
		logPrice := lo + (hi-lo)/2
		price := math.Exp(logPrice)
		for i, v := range t.Topics {
			topics[i] = bundle{readers: 1, bytes: float64(v.Bytes), head: int32(i), tail: int32(i)}
		}
		groups := p.solve(topics, price, next)
		waste := 0.0
		for _, g := range groups {
			waste += float64((g.readers - 1) * g.bytes)
		}
		best = max(best, waste+float64(price*float64(len(groups)-stores)))
		if len(groups) > stores {
			lo = logPrice
		} else {
			hi = logPrice
		}
	}
	return best
}
