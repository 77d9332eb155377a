package topic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The dumb twins: what the room means, without a thought of cost.

// naiveMatch is one filter against one name.
func naiveMatch(filter, name string) bool {
	f, n := strings.Split(filter, "/"), strings.Split(name, "/")
	if f[len(f)-1] == "**" {
		f = f[:len(f)-1]
		if len(n) < len(f) {
			return false
		}
		n = n[:len(f)]
	}
	return slices.EqualFunc(f, n, func(f, n string) bool { return f == "*" || f == n })
}

func naiveAny(filters []string, name string) bool {
	return slices.ContainsFunc(filters, func(f string) bool { return naiveMatch(f, name) })
}

// Few words and few levels, so that names and filters meet.
var (
	word     = rapid.SampledFrom([]string{"a", "b", "c", "a b"})
	name     = rapid.Map(rapid.SliceOfN(word, 1, 5), joinLevels)
	oneStar  = rapid.SampledFrom([]string{"a", "b", "c", "a b", "*", "*"})
	anyFiltr = rapid.Map(rapid.SliceOfN(oneStar, 1, 4), joinLevels)
	filterOf = rapid.OneOf(anyFiltr, rapid.Map(anyFiltr, func(s string) string { return s + "/**" }), rapid.Just("**"))
)

func joinLevels(levels []string) string { return strings.Join(levels, "/") }

// allNames is every name of up to four levels over the words, and one more word
// that no filter has.
var allNames = func() []string {
	var out []string
	level := []string{""}
	for range 4 {
		var next []string
		for _, s := range level {
			for _, w := range []string{"a", "b", "c", "a b", "zz"} {
				next = append(next, s+w)
			}
		}
		out = append(out, next...)
		level = level[:0]
		for _, s := range next {
			level = append(level, s+"/")
		}
	}
	return out
}()

func TestFiltersAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(filterOf, 1, 6).Draw(t, "filters")
		f, err := ParseFilters(list...)
		if err != nil {
			t.Fatal(err)
		}
		canonical := f.Canonical()
		for _, n := range allNames {
			want := naiveAny(list, n)
			if got := f.Match(n); got != want {
				t.Fatalf("%q matches %q: %v, want %v", list, n, got, want)
			}
			if got := naiveAny(canonical, n); got != want {
				t.Fatalf("%q became %q: wants %q: %v, was %v", list, canonical, n, got, want)
			}
		}
		if want := slices.Contains(list, "**") || slices.Contains(list, "*/**"); f.All() != want {
			t.Fatalf("%q: All is %v", list, f.All())
		}
		checkIrreducible(t, canonical)
		again, err := ParseFilters(canonical...)
		if err != nil || !slices.Equal(again.Canonical(), canonical) {
			t.Fatalf("canonical %q became %q, %v", canonical, again.Canonical(), err)
		}
	})
}

// checkIrreducible demands that the list is sorted and no filter in it covers
// another one. Names up to one level deeper than any filter, with a word that is
// in none, decide that.
func checkIrreducible(t *rapid.T, list []string) {
	if !slices.IsSorted(list) {
		t.Fatalf("%q is not sorted", list)
	}
	for _, a := range list {
		for _, b := range list {
			covered := a != b
			for _, n := range allNames {
				covered = covered && (!naiveMatch(b, n) || naiveMatch(a, n))
			}
			deep := strings.ReplaceAll(strings.TrimSuffix(b, "**")+"zz/zz/zz/zz/zz", "*", "zz")
			if strings.HasSuffix(b, "**") {
				covered = covered && naiveMatch(a, deep)
			}
			if covered {
				t.Fatalf("%q: %q covers %q", list, a, b)
			}
		}
	}
}

// TestTableAgainstModel drives a table and selections over it beside maps.
func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, ids, names := NewTable(), map[string]uint32{}, []string{}
		parts, partNames := map[string][]uint32{}, []string{}
		list := rapid.SliceOfN(filterOf, 1, 4).Draw(t, "filters")
		f, err := ParseFilters(list...)
		if err != nil {
			t.Fatal(err)
		}
		sel := NewSelection(table, f)
		t.Repeat(map[string]func(*rapid.T){
			"intern": func(t *rapid.T) {
				n := name.Draw(t, "name")
				id, fresh := table.Intern([]byte(n))
				want, known := ids[n]
				if !known {
					want = uint32(len(names))
					ids[n], names = want, append(names, n)
					p := Partition(n)
					if parts[p] == nil {
						partNames = append(partNames, p)
					}
					parts[p] = append(parts[p], want)
				}
				if id != want || fresh == known {
					t.Fatalf("intern %q: id %d fresh %v, want %d %v", n, id, fresh, want, !known)
				}
			},
			"reserve": func(t *rapid.T) { table.Reserve(rapid.Uint32Range(0, 300).Draw(t, "further")) },
			"select":  func(t *rapid.T) { checkSelection(t, table, sel, list, names, partNames) },
			"": func(t *rapid.T) {
				if int(table.Len()) != len(names) || int(table.Partitions()) != len(partNames) {
					t.Fatalf("%d topics, %d partitions; want %d, %d", table.Len(), table.Partitions(), len(names), len(partNames))
				}
				var many [][]byte
				for _, n := range rapid.SliceOfN(rapid.OneOf(name, rapid.Just("")), 0, 3*ahead).Draw(t, "looked up at a time") {
					many = append(many, []byte(n))
				}
				found := make([]uint32, len(many))
				table.LookupAll(many, found)
				for i, n := range many {
					if want, known := ids[string(n)]; known && found[i] != want || !known && found[i] != Unknown {
						t.Fatalf("look %q up: %d, want %d %v", n, found[i], want, known)
					}
				}
				n := name.Draw(t, "looked up")
				id, ok := table.Lookup(n)
				if want, known := ids[n]; ok != known || id != want {
					t.Fatalf("lookup %q: %d %v, want %d %v", n, id, ok, want, known)
				}
			},
		})
		checkTable(t, table, names, partNames, parts)
	})
}

func checkTable(t *rapid.T, table *Table, names, partNames []string, parts map[string][]uint32) {
	for i, n := range names {
		id := uint32(i)
		if table.Name(id) != n || table.PartitionName(table.Partition(id)) != Partition(n) {
			t.Fatalf("id %d is %q in %q", id, table.Name(id), table.PartitionName(table.Partition(id)))
		}
	}
	for i, want := range partNames {
		p := uint32(i)
		var got []uint32
		table.EachTopicOf(p, func(id uint32) bool { got = append(got, id); return true })
		found, ok := table.LookupPartition(want)
		if table.PartitionName(p) != want || !ok || found != p || !slices.Equal(got, parts[want]) {
			t.Fatalf("partition %d is %q (looked up %d), topics %v, want %q %v", p, table.PartitionName(p), found, got, want, parts[want])
		}
	}
}

func checkSelection(t *rapid.T, table *Table, sel *Selection, list, names, partNames []string) {
	got := map[string]bool{}
	ps := sel.Partitions()
	if !slices.IsSorted(ps) || len(slices.Compact(slices.Clone(ps))) != len(ps) {
		t.Fatalf("partitions %v are not ascending", ps)
	}
	for _, p := range ps {
		got[table.PartitionName(p)] = sel.PartitionCovered(p)
	}
	for _, p := range partNames {
		covered, listed := got[p]
		if want := naiveListed(list, p); listed != want {
			t.Fatalf("%q: partition %q is listed: %v, want %v", list, p, listed, want)
		}
		if want := naiveCovered(list, p); covered != want {
			t.Fatalf("%q: partition %q is covered: %v, want %v", list, p, covered, want)
		}
	}
	for id, n := range names {
		if got, want := sel.Match(uint32(id)), naiveAny(list, n); got != want {
			t.Fatalf("%q wants %q: %v, want %v", list, n, got, want)
		}
	}
}

// naiveListed asks every name that a partition could hold, naiveCovered demands
// one filter that wants them all.
func naiveListed(list []string, partition string) bool {
	return slices.ContainsFunc(allNames, func(n string) bool { return Partition(n) == partition && naiveAny(list, n) })
}

func naiveCovered(list []string, partition string) bool {
	return slices.ContainsFunc(list, func(f string) bool {
		return !slices.ContainsFunc(allNames, func(n string) bool { return Partition(n) == partition && !naiveMatch(f, n) })
	})
}

func TestValidateNeverDisagreesWithPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "name")
		if Validate(s) != nil {
			return
		}
		p := Partition(s)
		if Validate(p) != nil || Partition(p) != p || !strings.HasPrefix(s, p) {
			t.Fatalf("partition of %q is %q", s, p)
		}
		f, err := ParseFilters(s, s+"/**")
		if err != nil || !f.Match(s) || fmt.Sprint(f.Canonical()) != fmt.Sprint([]string{s + "/**"}) {
			t.Fatalf("filter %q: %v", s, err)
		}
	})
}

// naiveCompare is the order of names, byte after byte: the end, the slash, the rest.
func naiveCompare(a, b string) int {
	weight := func(s string) (out []int) {
		for _, c := range []byte(s) {
			if out = append(out, int(c)+2); c == '/' {
				out[len(out)-1] = 1
			}
		}
		return out
	}
	return slices.Compare(weight(a), weight(b))
}

func TestCompareAgainstModel(t *testing.T) {
	some := rapid.StringOfN(rapid.SampledFrom([]rune("a/-0é")), 0, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		shared := some.Draw(t, "shared")
		a, b := shared+some.Draw(t, "a"), shared+some.Draw(t, "b")
		if got, want := Compare(a, b), naiveCompare(a, b); got != want {
			t.Fatalf("Compare(%q, %q) is %d, want %d", a, b, got, want)
		}
	})
}

// TestPlainNames: the short way says of no name anything else than the long one.
func TestPlainNames(t *testing.T) {
	agree := func(t interface{ Fatalf(string, ...any) }, s string) {
		if want := fault(s) == "" && !strings.Contains(s, star); (Validate(s) == nil) != want {
			t.Fatalf("%q is valid: %v, want %v", s, !want, want)
		}
	}
	for c := range 256 {
		for _, s := range []string{"", "a", "a/", "/a"} {
			agree(t, string([]byte{byte(c)})+s)
			agree(t, s+string([]byte{byte(c)}))
		}
	}
	for _, n := range []int{MaxLevels, MaxLevels + 1} {
		agree(t, strings.Repeat("/a", n)[1:])
	}
	for _, n := range []int{MaxBytes, MaxBytes + 1} {
		agree(t, strings.Repeat("a", n))
	}
	rapid.Check(t, func(t *rapid.T) {
		agree(t, rapid.StringOfN(rapid.SampledFrom([]rune("aB/* ~\x7fé")), 0, 8, -1).Draw(t, "name"))
	})
}

// TestReaches: of topics that begin alike it says so exactly if one may be wanted, whichever
// it is asked about.
func TestReaches(t *testing.T) {
	table := NewTable()
	for _, n := range allNames {
		table.Intern([]byte(n))
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(filterOf, 1, 6).Draw(t, "filters")
		f, err := ParseFilters(list...)
		if err != nil {
			t.Fatal(err)
		}
		s := NewSelection(table, f)
		levels := rapid.IntRange(1, 4).Draw(t, "levels")
		wanted := make(map[string]bool)
		for _, n := range allNames {
			if naiveAny(list, n) {
				wanted[Head(n, levels)] = true
			}
		}
		for id, n := range allNames {
			if head := Head(n, levels); s.Reaches(uint32(id), levels) != wanted[head] {
				t.Fatalf("%q reaches %q, %d levels of %q: want %v", list, head, levels, n, wanted[head])
			}
		}
	})
}
