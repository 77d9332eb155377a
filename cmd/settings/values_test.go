package settings

import "testing"

func TestSize(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "1048576": 1 << 20, "64KiB": 64 << 10, "1.5GiB": 3 << 29, "10 MB": 10e6, "7B": 7, "2TB": 2e12,
	} {
		var got Size
		if err := got.Set(in); err != nil || got != want {
			t.Errorf("%s: got %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "MiB", "1 gig", "1e30", "NaN", "10000000TiB", "Inf"} {
		var got Size
		if err := got.Set(in); err == nil {
			t.Errorf("%q was taken as %d", in, got)
		}
	}
}

func TestAddresses(t *testing.T) {
	list := []string{"default:1"}
	a := &Addresses{List: &list}
	for _, in := range []string{"a:1, b:2", "c:3"} {
		if err := a.Set(in); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.String(); got != "a:1,b:2,c:3" {
		t.Errorf("got %s", got)
	}
	if err := a.Set("a:1,,b:2"); err == nil {
		t.Error("an empty address was taken")
	}
}
