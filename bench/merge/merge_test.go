package merge

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEntrants holds every merge against sorting.
func TestEntrants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		o := Options{Messages: 1 + rnd.IntN(5000), Density: 0.01 + 0.99*rnd.Float64(), Seed: rnd.Uint64()}
		shape := Shapes()[rnd.IntN(len(Shapes()))]
		sources, span := shape.sources(o, 1+rnd.IntN(70))
		var want []uint32
		for _, s := range sources {
			for _, e := range s {
				want = append(want, uint32(e))
			}
		}
		slices.Sort(want)
		for _, e := range Entrants() {
			m := e.New()
			for range 2 {
				if got := m.Merge(nil, sources, span); !slices.Equal(got, want) {
					t.Fatalf("%s: %d sources, %s: %d positions of %d, or another order", e.Name, len(sources), shape.Name, len(got), len(want))
				}
			}
		}
	}
}

// TestRun holds the form of the report, and that no merge but the boxed one
// allocates for messages.
func TestRun(t *testing.T) {
	r, err := Run(t.Context(), Options{Sources: []int{1, 64}, Messages: 20_000, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var form struct {
		Chosen string
		Merges []struct {
			Name    string
			Sources int
			Nanos   float64 `json:"ns_per_message"`
			Allocs  float64 `json:"allocs_per_message"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &form); err != nil {
		t.Fatal(err)
	}
	if len(form.Merges) != 2*len(Entrants()) || form.Merges[0].Name != "container_heap" || form.Merges[0].Nanos <= 0 {
		t.Fatalf("unexpected results: %+v", form)
	}
	for _, m := range form.Merges {
		if m.Name == form.Chosen && m.Allocs > 0.001 {
			t.Errorf("%s allocates %g times a message", m.Name, m.Allocs)
		}
	}
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{{Sources: []int{0}}, {Density: 2}, {Messages: 1 << 30}, {Rounds: -1}} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
