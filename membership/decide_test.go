package membership

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"
)

// TestDecide: every file of testdata/decide tells cases: the first line is the node
// itself, the others what gossip knows.
//
//	ID [expect=N] [data] [founding] [dead|left|suspect]
func TestDecide(t *testing.T) {
	datadriven.Walk(t, "testdata/decide", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var members []Member
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				members = append(members, parseMember(t, line))
			}
			got := Decide(members[0], members[1:])
			out := fmt.Sprintf("%s: %s\n", got.Action, got.Why)
			for _, s := range got.Servers {
				out += fmt.Sprintf("  %s at %s\n", s.ID, s.Raft)
			}
			return out
		})
	})
}

func parseMember(t *testing.T, line string) Member {
	words := strings.Fields(line)
	m := Member{ID: words[0], State: "alive", Meta: Meta{Raft: words[0] + ":7072"}}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "expect":
			m.Expect, _ = strconv.Atoi(value)
		case "data":
			m.HasData = true
		case "founding":
			m.HasData, m.Founding = true, true
		case "dead", "left", "suspect":
			m.State = key
		default:
			t.Fatalf("word %q", w)
		}
	}
	return m
}

// TestOneFounder: whatever set of nodes sees itself completely, at most one of them
// founds, no node that has data does, and the founder's configuration is the set.
func TestOneFounder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "nodes")
		members := make([]Member, n)
		for i := range members {
			members[i] = Member{
				ID: fmt.Sprintf("n%d", i), State: rapid.SampledFrom([]string{"alive", "alive", "alive", "dead"}).Draw(t, "state"),
				Meta: Meta{
					Expect:  rapid.SampledFrom([]int{0, n, n, n, n, n + 1}).Draw(t, "expect"),
					HasData: rapid.IntRange(0, 9).Draw(t, "data") == 0,
				},
			}
			members[i].Founding = members[i].HasData && rapid.Bool().Draw(t, "founding")
		}
		founders := 0
		for i, self := range members {
			self.State = "alive"
			var others []Member
			for j, m := range members {
				if j != i {
					others = append(others, m)
				}
			}
			d := Decide(self, others)
			if d.Action != Found {
				continue
			}
			founders++
			if self.HasData || len(d.Servers) != n || self.Expect != n {
				t.Errorf("%s founds with %v", self.ID, d.Servers)
			}
			for _, m := range others {
				if m.HasData || m.State == "dead" {
					t.Errorf("%s founds beside %+v", self.ID, m)
				}
			}
		}
		if founders > 1 {
			t.Errorf("%d founders", founders)
		}
	})
}

// TestMeta: what is encoded is decoded, fits, and garbage is refused without panic.
func TestMeta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.StringN(0, 40, maxAddressBytes)
		m := Meta{
			Cluster: [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "cluster")),
			Expect:  rapid.IntRange(0, 255).Draw(t, "expect"),
			HasData: rapid.Bool().Draw(t, "data"), Founding: rapid.Bool().Draw(t, "founding"),
			Ending: rapid.Bool().Draw(t, "ending"), Drained: rapid.Bool().Draw(t, "drained"),
			API: address.Draw(t, "api"), HTTP: address.Draw(t, "http"), Raft: address.Draw(t, "raft"),
			Version: rapid.StringN(0, 20, maxVersionBytes).Draw(t, "version"), LowestLevel: rapid.Byte().Draw(t, "lowest"), HighestLevel: rapid.Byte().Draw(t, "highest"),
		}
		b, err := m.Encode()
		if err != nil || len(b) > MaxMetaBytes {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if got, err := DecodeMeta(b); got != m || err != nil {
			t.Fatalf("got %+v, %v, want %+v", got, err, m)
		}
		earlier := m // a node of an earlier version leaves out the rest
		earlier.Version, earlier.LowestLevel, earlier.HighestLevel = "", 0, 0
		without := len(b) - 3 - len(m.Version)
		if got, err := DecodeMeta(b[:without]); got != earlier || err != nil {
			t.Fatalf("of an earlier version: got %+v, %v, want %+v", got, err, earlier)
		}
		for i := range b {
			if _, err := DecodeMeta(b[:i]); err == nil && i != without {
				t.Fatalf("%d bytes of %d were accepted", i, len(b))
			}
		}
	})
	if _, err := (Meta{Raft: strings.Repeat("x", maxAddressBytes+1)}).Encode(); err == nil {
		t.Error("an overlong address was encoded")
	}
}

func FuzzDecodeMeta(f *testing.F) {
	b, _ := Meta{Expect: 3, API: "a:1", HTTP: "b:2", Raft: "c:3"}.Encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil && len(m.API) <= maxAddressBytes && len(m.HTTP) <= maxAddressBytes && len(m.Raft) <= maxAddressBytes && len(m.Version) <= maxVersionBytes {
			t.Fatalf("%+v was decoded and cannot be encoded: %v", m, err)
		}
		if back, err2 := DecodeMeta(again); err == nil && (err2 != nil || back != m) {
			t.Fatalf("%+v became %+v, %v", m, back, err2)
		}
	})
}
