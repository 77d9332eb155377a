package node

import (
	"strings"
	"testing"
	"time"
)

// TestStrangers: a node that is told to join another cluster than its folder's ends
// and says so; the one that it asked notes it and goes on.
func TestStrangers(t *testing.T) {
	one := single(t, t.TempDir())
	a, _ := boot(t, one)
	publish(t, dial(t, a.API), "a", "of one")
	two := single(t, t.TempDir())
	two.ID = "duo"
	b, stop := boot(t, two)
	publish(t, dial(t, b.API), "a", "of two")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	joins := two
	joins.Join = []string{a.Gossip}
	wants(t, refused(t, joins), "join", a.Gossip, "want nodes of cluster", two.Dir, "node "+one.ID)
	deadline := time.Now().Add(patience)
	for !one.LogOutput.(*testLog).says("a node of another cluster") {
		if time.Now().After(deadline) {
			t.Fatal("nobody noticed")
		}
		<-time.After(10 * time.Millisecond)
	}
	b, _ = boot(t, two)
	for want, address := range map[string]string{"of one": a.API, "of two": b.API} {
		if got := recoverAll(t, dial(t, address)); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func (l *testLog) says(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), what)
}
