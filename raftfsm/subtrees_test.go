package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"chorale/message"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/retention"
	"chorale/topic"

	"pgregory.net/rapid"
)

// subtreesModel is rules and floors in slices, asked by filters alone.
type subtreesModel struct {
	number uint64
	rules  []retention.Rule
	floors []retention.Floor
}

func (m *subtreesModel) of(t rapid.TB, name string) (seq uint64) {
	for _, f := range m.floors {
		filters, err := topic.ParseFilters(f.Filter)
		if err != nil {
			t.Fatal(err)
		}
		if filters.Match(name) {
			seq = max(seq, f.Seq)
		}
	}
	return seq
}

// may is whether the manifest leaves open that all of a rule before seq has expired.
func (m *subtreesModel) may(r retention.Rule, seq uint64, f *fixture) bool {
	v := f.fsm.View()
	byAge, starts := r.Age > 0 && seq <= v.LastSeq+1, false
	for _, file := range f.history.Manifest().Files {
		if file.First < seq && file.FirstTime >= v.LastTime-r.Age || file.Last < seq && file.LastTime >= v.LastTime-r.Age {
			byAge = false
		}
		starts = starts || file.First == seq
	}
	return byAge || r.Bytes > 0 && starts
}

func (m *subtreesModel) draw(rt *rapid.T) (c kept.Change, good bool) {
	c.Known = rapid.Uint64Range(max(m.number, 1)-1, m.number).Draw(rt, "known")
	good = c.Known == m.number
	for _, filter := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "a/**", "a/b", "a/b/**", "c/**", "c"}), 0, 4, rapid.ID).Draw(rt, "filters") {
		r := retention.Rule{Filter: filter, Age: rapid.Int64Range(0, 100).Draw(rt, "age"), Bytes: rapid.Int64Range(-1, 1).Draw(rt, "bytes")}
		good = good && r.Bytes >= 0 && r.Age+r.Bytes > 0
		c.Rules = append(c.Rules, r)
	}
	return c, good
}

// TestSubtreesModel: a random life of two replicas, one of which restarts from snapshots: both
// answer alike, floors are those of the model and never fall, and the snapshots are the same.
func TestSubtreesModel(t *testing.T) {
	names := []string{"a", "a/b", "a/b/c", "c/d", "e"}
	rapid.Check(t, func(rt *rapid.T) {
		a, b, m := newFixture(rt, 400), newFixture(rt, 400), &subtreesModel{}
		both := func(entry []byte) Result {
			ra, rb := a.apply(entry), b.apply(entry)
			if fmt.Sprint(ra.Err) != fmt.Sprint(rb.Err) {
				rt.Fatalf("%v on one replica, %v on the other", ra.Err, rb.Err)
			}
			return ra
		}
		now := int64(0)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now += rapid.Int64Range(0, 50).Draw(rt, "time passes")
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			default:
				var batch message.Builder
				for range rapid.IntRange(1, 8).Draw(rt, "messages") {
					batch.Add(0, message.Entry{Topic: rapid.SampledFrom(names).Draw(rt, "topic"), Draft: message.Draft{Payload: make([]byte, 40)}})
				}
				both(EncodePublish(now, [][]byte{batch.Encode(nil, message.ProducerID{})}))
			case 1:
				a.build()
				b.build()
			case 2:
				c, good := m.draw(rt)
				err := both(EncodeRules(c)).Err
				if (err == nil) != good || err != nil && !errors.Is(err, kept.ErrOtherRules) && !errors.Is(err, retention.ErrBad) {
					rt.Fatalf("%+v to %d: %v", c, m.number, err)
				}
				if good {
					m.number++
					m.rules = slices.SortedFunc(slices.Values(c.Rules), func(x, y retention.Rule) int { return bytes.Compare([]byte(x.Filter), []byte(y.Filter)) })
				}
			case 3, 4:
				m.rise(rt, a, now, both)
			case 5:
				s := b.snapshot()
				if rapid.Bool().Draw(rt, "the process ends") {
					b.open()
				}
				if err := b.restore(s); err != nil {
					rt.Fatal(err)
				}
			}
			for _, name := range names {
				if got, want := a.fsm.Floors().Of(name), m.of(rt, name); got != want || b.fsm.Floors().Of(name) != want {
					rt.Fatalf("the floor of %s is %d and %d, want %d", name, got, b.fsm.Floors().Of(name), want)
				}
			}
		}
		a.build()
		b.build()
		if !bytes.Equal(a.snapshot(), b.snapshot()) {
			rt.Fatal("the replicas have different snapshots")
		}
	})
}

// rise proposes floors, some of which cannot be, and compares the answer with the model's.
func (m *subtreesModel) rise(rt *rapid.T, a *fixture, now int64, both func([]byte) Result) {
	x := kept.Rise{Rules: rapid.SampledFrom([]uint64{m.number, m.number, m.number, m.number + 1}).Draw(rt, "number"), Time: now}
	for i := range m.rules {
		if rapid.Bool().Draw(rt, "rises") {
			x.Floors = append(x.Floors, kept.RuleFloor{Rule: uint32(i), Seq: rapid.Uint64Range(0, a.fsm.View().LastSeq+2).Draw(rt, "seq")})
		}
	}
	if len(x.Floors) == 0 {
		x.Floors = []kept.RuleFloor{{Rule: uint32(len(m.rules))}}
	}
	err := both(EncodeFloors(x)).Err // the answer is by the time that it has moved
	good := x.Rules == m.number && int(x.Floors[0].Rule) < len(m.rules)
	for _, f := range x.Floors {
		good = good && f.Seq > m.of(rt, above(m.rules[f.Rule].Filter)) && m.may(m.rules[f.Rule], f.Seq, a)
	}
	if (err == nil) != good {
		rt.Fatalf("%+v by %+v, floors %v: %v", x, m.rules, m.floors, err)
	}
	for _, f := range x.Floors {
		if good {
			m.floors = append(m.floors, retention.Floor{Filter: m.rules[f.Rule].Filter, Seq: f.Seq})
		}
	}
}

// above is a topic that all floors of a filter hold for, and no others but those of its topics.
func above(filter string) string {
	if name, ok := bytes.CutSuffix([]byte(filter), []byte("/**")); ok {
		return string(name) + "/no/rule/has/this"
	}
	return filter
}

// A snapshot with rules is of version 6, with a level and without; and every byte of it counts.
func TestSubtreesInSnapshot(t *testing.T) {
	f := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		f.must(e)
	}
	f.must(EncodeRules(someRules))
	f.must(EncodeFloors(someFloors))
	for turn := range 2 {
		s, want := f.snapshot(), f.fsm.Kept()
		if s[8] != 6 {
			t.Errorf("version %d, want 6", s[8])
		}
		f.open()
		if err := f.restore(s); err != nil {
			t.Fatal(err)
		}
		if got := f.fsm.Kept(); fmt.Sprint(got.Rules, got.Floors.List()) != fmt.Sprint(want.Rules, want.Floors.List()) || !bytes.Equal(f.snapshot(), s) || f.fsm.Floors().Of("part1/x") != 9 {
			t.Errorf("%+v after a restart, %+v before", got, want)
		}
		if v := f.fsm.View(); v.Proven != level.Subtrees {
			t.Errorf("level %d is proven", v.Proven)
		}
		for at := range 300 {
			damaged := bytes.Clone(s)
			damaged[at] ^= 0x41
			f.open()
			if err := f.restore(reseal(damaged)); err == nil && !bytes.Equal(f.snapshot(), reseal(damaged)) {
				t.Errorf("byte %d: what was restored is not what was read", at)
			}
		}
		f.open()
		if err := f.restore(s); err != nil {
			t.Fatal(err)
		}
		if turn == 0 {
			f.must(EncodeLevel(level.Mark{Level: level.Subtrees, By: "v"}))
		}
	}
}
