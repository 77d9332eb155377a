package compactor

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// TestGolden reads a tree of volumes, one topic and its bytes a line, and prints
// what an algorithm makes of it:
//
//	split algorithm=adaptive stores=4
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/split", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			tree := NewTree(parseVolumes(t, d.Input))
			budget := 0
			d.MaybeScanArgs(t, "stores", &budget)
			var name string
			d.ScanArgs(t, "algorithm", &name)
			split := map[string]func() Split{
				"adaptive":  func() Split { return Adaptive(tree, budget) },
				"fixed3":    func() Split { return Fixed3(tree) },
				"partition": func() Split { return PerPartition(tree) },
				"topic":     func() Split { return PerTopic(tree) },
			}[name]()
			return show(tree, split)
		})
	})
}

func parseVolumes(t *testing.T, input string) []Volume {
	units := map[byte]float64{'K': 1e3, 'M': 1e6, 'G': 1e9}
	var volumes []Volume
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		factor := 1.0
		if u, ok := units[f[1][len(f[1])-1]]; ok {
			factor, f[1] = u, f[1][:len(f[1])-1]
		}
		n, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		volumes = append(volumes, Volume{Topic: f[0], Bytes: uint64(n * factor), Messages: 1})
	}
	return volumes
}

func show(t *Tree, s Split) string {
	var b strings.Builder
	for store, topics := range s.members() {
		fmt.Fprintf(&b, "store %d: %.4g MB\n", store+1, float64(s.bytesOf(t)[store])/1e6)
		for _, topic := range topics {
			fmt.Fprintf(&b, "  %s\n", t.Topics[topic].Topic)
		}
	}
	topics, subtrees := Look(t, s, WholeStores)
	fmt.Fprintf(&b, "waste over topics: %.4g MB, most %.4g MB by %s\n", topics.SumWaste/1e6, topics.MaxWaste/1e6, orNobody(topics.MaxWasteOf))
	fmt.Fprintf(&b, "waste over subtrees: %.4g MB, most %.4g MB by %s\n", subtrees.SumWaste/1e6, subtrees.MaxWaste/1e6, orNobody(subtrees.MaxWasteOf))
	return b.String()
}

func orNobody(name string) string {
	if name == "" {
		return "nobody"
	}
	return name
}

func drawVolumes(t *rapid.T) []Volume {
	level := rapid.SampledFrom([]string{"a", "b", "c", "a-", "a0", "ü"})
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(level, 1, 5).Draw(t, "levels"), "/")
	})
	names := rapid.SliceOfNDistinct(name, 1, 40, rapid.ID[string]).Draw(t, "names")
	volumes := make([]Volume, len(names))
	for i, n := range names {
		size := math.Exp(rapid.Float64Range(0, 20).Draw(t, "log bytes"))
		volumes[i] = Volume{Topic: n, Bytes: uint64(size), Messages: 1}
	}
	return volumes
}

// TestSplitProperties: every topic has one store, the budget holds, the order of
// the input does not matter, and no split undercuts the lower bound.
func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		volumes := drawVolumes(t)
		tree := NewTree(volumes)
		budget := rapid.IntRange(1, len(volumes)+2).Draw(t, "budget")
		s := Adaptive(tree, budget)
		if s.Stores < 1 || s.Stores > budget {
			t.Fatalf("%d stores, budget %d", s.Stores, budget)
		}
		for store, topics := range s.members() {
			if len(topics) == 0 {
				t.Fatalf("store %d is empty", store)
			}
		}
		shuffled := rapid.Permutation(volumes).Draw(t, "shuffled")
		again := Adaptive(NewTree(shuffled), budget)
		if !slices.Equal(s.StoreOf, again.StoreOf) {
			t.Fatalf("another order of input, another split: %v, %v", s, again)
		}
		topics, _ := Look(tree, s, WholeStores)
		if bound := LowerBound(tree, s.Stores); topics.SumWaste < bound*(1-1e-9)-1 {
			t.Fatalf("waste %.0f is below the lower bound %.0f", topics.SumWaste, bound)
		}
	})
}

// TestLens holds the lens against a reader that walks all topics for each name.
func TestLens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := NewTree(drawVolumes(t))
		s := Adaptive(tree, rapid.IntRange(1, len(tree.Topics)).Draw(t, "budget"))
		stores := s.bytesOf(tree)
		wantTopics, wantSubtrees := 0.0, 0.0
		levels := map[string]bool{}
		for i, v := range tree.Topics {
			wantTopics += float64(stores[s.StoreOf[i]] - v.Bytes)
			for end, c := range v.Topic {
				if c == '/' {
					levels[v.Topic[:end]] = true
				}
			}
		}
		for level := range levels {
			touched := map[int32]bool{}
			for i, v := range tree.Topics {
				if v.Topic == level || strings.HasPrefix(v.Topic, level+"/") {
					wantSubtrees -= float64(v.Bytes)
					touched[s.StoreOf[i]] = true
				}
			}
			for store := range touched {
				wantSubtrees += float64(stores[store])
			}
		}
		topics, subtrees := Look(tree, s, WholeStores)
		if !near(topics.SumWaste, wantTopics) || !near(subtrees.SumWaste, wantSubtrees) {
			t.Fatalf("waste over topics %.0f, want %.0f; over subtrees %.0f, want %.0f",
				topics.SumWaste, wantTopics, subtrees.SumWaste, wantSubtrees)
		}
		if subtrees.Readers != len(levels) {
			t.Fatalf("%d subtrees, want %d", subtrees.Readers, len(levels))
		}
	})
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b))+1 }

// TestPartition holds the monotone queue against trying every set partition: for
// single topics it finds the best there is, for bundles the best of those that are
// consecutive in its order.
func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "bundles")
		most := rapid.SampledFrom([]int{1, 20}).Draw(t, "most readers")
		in := make([]bundle, n)
		own := 0.0
		for i := range in {
			in[i] = bundle{
				readers: float64(rapid.IntRange(1, most).Draw(t, "readers")),
				bytes:   float64(rapid.IntRange(1, 1000).Draw(t, "bytes")),
				head:    int32(i), tail: int32(i),
			}
			own += in[i].readers * in[i].bytes
		}
		price := float64(rapid.IntRange(1, 20000).Draw(t, "price"))
		sorted := slices.Clone(in)
		slices.SortFunc(sorted, byBytesPerReader)
		want := bestOfAll(sorted, price, most > 1) - own
		got := -own
		var p partition
		for _, b := range p.solve(in, price, make([]int32, n)) {
			got += price + b.readers*b.bytes
		}
		if !near(got, want) {
			t.Fatalf("cost %.0f, the best partition costs %.0f", got, want)
		}
	})
}

// bestOfAll tries every set partition, or every one whose groups are consecutive.
func bestOfAll(in []bundle, price float64, consecutive bool) float64 {
	best := math.Inf(1)
	var groups []bundle
	var try func(i int)
	try = func(i int) {
		if i == len(in) {
			cost := 0.0
			for _, g := range groups {
				cost += price + g.readers*g.bytes
			}
			best = min(best, cost)
			return
		}
		for g := range groups {
			if consecutive && g != len(groups)-1 {
				continue
			}
			old := groups[g]
			groups[g].readers += in[i].readers
			groups[g].bytes += in[i].bytes
			try(i + 1)
			groups[g] = old
		}
		groups = append(groups, in[i])
		try(i + 1)
		groups = groups[:len(groups)-1]
	}
	try(0)
	return best
}

// BenchmarkAdaptive splits made-up trees as skewed as real ones.
func BenchmarkAdaptive(b *testing.B) {
	for _, topics := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			volumes := make([]Volume, topics)
			state := uint64(1)
			random := func() uint64 { state = state*6364136223846793005 + 1442695040888963407; return state >> 33 }
			for i := range volumes {
				name := fmt.Sprintf("p%d/q%d/r%d/t%d", random()%40, random()%40, random()%50, i)
				volumes[i] = Volume{Topic: name, Bytes: 32 + 1<<30/(1+random()%(1<<20)), Messages: 1}
			}
			for b.Loop() {
				t := NewTree(volumes)
				s := Adaptive(t, topics/100)
				b.ReportMetric(float64(s.Stores), "stores")
			}
		})
	}
}
