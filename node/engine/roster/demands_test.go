package roster

import "testing"

// TestDemands: nothing is asked for behind the end, which comes when all was answered.
func TestDemands(t *testing.T) {
	over := func(end <-chan struct{}) bool {
		select {
		case <-end:
			return true
		default:
			return false
		}
	}
	d := newDemands()
	for range 2 {
		if !d.begin() {
			t.Fatal("refused")
		}
	}
	d.answered()
	if over(d.end()) || d.begin() {
		t.Fatal("it is over with one open, or goes on")
	}
	d.answered()
	if !over(d.end()) || d.begin() {
		t.Fatal("it is not over")
	}
	if !over(newDemands().end()) {
		t.Fatal("without demands it is over when it ends")
	}
}
