package node

import (
	"strings"
	"testing"
	"time"
)

// TestStrangers: two clusters whose gossip meets stay two, and say so.
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
	two.Join = []string{a.Gossip}
	b, _ = boot(t, two)
	for _, log := range []*testLog{one.LogOutput.(*testLog), two.LogOutput.(*testLog)} {
		deadline := time.Now().Add(patience)
		for !log.says("a node of another cluster") {
			if time.Now().After(deadline) {
				t.Fatal("nobody noticed")
			}
			<-time.After(10 * time.Millisecond)
		}
	}
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
