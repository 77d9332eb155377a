package roster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// parse reads a view, a node a line, the first one leading:
//
//	n1 voter                      one of the first, not in the list
//	n2 voter wish=voter           in Raft's configuration and in the list
//	n3 none wish=removed          in the list alone
//	... heard=SECONDS             when it answered last, ago
//	... since=SECONDS             since when it has been caught up
//	... undurable=FILES           how many files of the manifest are not on its disk
//	... config=INDEX               of the newest configuration in its log; the first line's counts
//	... other                     it answers with another folder than the list's
//	... reads=LEVEL               that its build reads up to; 5 if not given
//	... level=LEVEL               of the log; of the first line
//	... proven=LEVEL              by what the log holds; of the first line
func parse(t *testing.T, input string) view {
	v := view{now: noon, steady: 3 * time.Second, reports: map[raft.ServerID]Report{}}
	for i, line := range strings.Split(strings.TrimSpace(input), "\n") {
		words := strings.Fields(line)
		s := raft.Server{ID: raft.ServerID(words[0]), Suffrage: raft.Voter}
		n := Report{Health: Health{Incarnation: 1, Version: "of " + words[0], Reads: level.Range{Lowest: 1, Highest: 5}}}
		if i == 0 {
			v.self = s.ID
		}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			seconds := 0
			fmt.Sscan(value, &seconds)
			ago := noon.Add(-time.Duration(seconds) * time.Second)
			switch key {
			case "wish":
				v.list = append(v.list, members.Member{ID: words[0], Incarnation: 1, Changed: 1, Voter: value == "voter", Removed: value == "removed"})
			case "heard":
				n.Heard, n.Said = ago, ago
			case "since":
				n.Since = ago
			case "lag":
				n.Lag = uint64(seconds)
			case "voters":
				n.Voters = uint64(seconds)
				v.voters = max(v.voters, n.Voters)
			case "undurable":
				n.Undurable = seconds
			case "other":
				n.Incarnation = 2
			case "reads":
				n.Reads.Highest = level.Level(seconds)
			case "level":
				v.level.Level = level.Level(seconds)
			case "proven":
				v.proven = level.Level(seconds)
			default:
				t.Fatalf("unknown word %q", w)
			}
		}
		if v.reports[s.ID] = n; i == 0 {
			v.reads = n.Reads
		}
		switch words[1] {
		case "non-voter":
			s.Suffrage = raft.Nonvoter
			fallthrough
		case "voter":
			v.servers = append(v.servers, s)
		}
	}
	return v
}

// TestSteps runs testdata: views in, the next step, the successor, the refusals of each
// removal, and how the level stands out.
func TestSteps(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) { datadriven.RunTest(t, path, decide) })
}

func decide(t *testing.T, d *datadriven.TestData) string {
	v := parse(t, d.Input)
	var b strings.Builder
	switch d.Cmd {
	case "next":
		s, due := next(v)
		if !due {
			return "nothing is due\n"
		}
		fmt.Fprintf(&b, "%s of %s: %s\n", s.kind, s.server.ID, s.why)
	case "lose":
		for _, s := range v.servers {
			fmt.Fprintf(&b, "%s: %v\n", s.ID, v.mayLose(s.ID))
		}
	case "levels":
		answered := map[raft.ServerID]bool{v.self: true}
		for id, n := range v.reports {
			answered[id] = answered[id] || n.Fresh(v.now)
		}
		fmt.Fprintf(&b, "in use: %d\n", v.inUse(""))
		if m, due := v.rise(answered); due {
			fmt.Fprintf(&b, "raised to %d, %s\n", m.Level, m.By)
		}
		fmt.Fprintf(&b, "behind %d: %v\n", v.reads.Highest, v.behind(v.reads.Highest))
		for reads := level.Level(3); reads <= 6; reads++ {
			fmt.Fprintf(&b, "a stranger that reads up to %d: %v\n", reads, v.admits(JoinRequest{ID: "x", Version: "v", Reads: level.Range{Lowest: 1, Highest: reads}}))
		}
	case "successor":
		s, err := v.successor("")
		fmt.Fprintf(&b, "best: %s %v\n", s.ID, err)
		for _, id := range append([]raft.Server{{ID: "nobody"}}, v.servers...) {
			_, err := v.successor(id.ID)
			fmt.Fprintf(&b, "%s: %v\n", id.ID, err)
		}
	}
	return b.String()
}

// TestConverges: from any configuration and list, steps lead to what the list wants and
// then stop; on the way there is a voter always, and a step changes one server.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := view{self: "n0", now: noon, steady: time.Second, reports: map[raft.ServerID]Report{}}
		for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
			id := fmt.Sprintf("n%d", i)
			if i == 0 || rapid.Bool().Draw(t, "configured") {
				s := raft.Server{ID: raft.ServerID(id)}
				if i > 0 && rapid.Bool().Draw(t, "non-voter") {
					s.Suffrage = raft.Nonvoter
				}
				v.servers = append(v.servers, s)
			}
			if rapid.Bool().Draw(t, "listed") {
				removed := rapid.Bool().Draw(t, "removed")
				v.list = append(v.list, members.Member{ID: id, Incarnation: 1, Changed: 1, Removed: removed, Voter: !removed && rapid.Bool().Draw(t, "voter")})
			}
			v.reports[raft.ServerID(id)] = Report{Health: Health{Incarnation: 1}, Heard: noon, Since: noon.Add(-time.Minute)}
		}
		for steps := 0; ; steps++ {
			s, due := next(v)
			if !due {
				break
			}
			if steps > 3*len(v.servers)+3 {
				t.Fatalf("no end of steps: %+v", v)
			}
			v = v.after(t, s)
			if v.others("") == 0 {
				t.Fatalf("no voter is left: %+v", v)
			}
		}
		stay := 0
		for _, s := range v.servers {
			if m, known := v.list.Find(string(s.ID)); !known && s.Suffrage == raft.Voter || m.Voter {
				stay++
			}
		}
		for _, s := range v.servers {
			m, known := v.list.Find(string(s.ID))
			wrong := known && (m.Removed || m.Voter != (s.Suffrage == raft.Voter))
			if wrong && stay > 0 {
				t.Fatalf("%s stays what it is not meant to be: %+v", s.ID, v)
			}
		}
	})
}

// after is the view after a step.
func (v view) after(t *rapid.T, s step) view {
	v.servers = slices.Clone(v.servers)
	i := slices.IndexFunc(v.servers, func(x raft.Server) bool { return x.ID == s.server.ID })
	if i < 0 {
		t.Fatalf("a step for a server that is not configured: %+v", s)
	}
	if (v.self == s.server.ID) != (s.kind == stepTransfer) {
		t.Fatalf("the leader makes %+v of itself", s)
	}
	switch s.kind {
	case stepDrop:
		v.servers = slices.Delete(v.servers, i, i+1)
	case stepDemote:
		v.servers[i].Suffrage = raft.Nonvoter
	case stepPromote:
		v.servers[i].Suffrage = raft.Voter
	case stepTransfer:
		to, err := v.successor("")
		if err != nil || to.ID == v.self || to.Suffrage != raft.Voter {
			t.Fatalf("leadership goes to %+v, %v", to, err)
		}
		v.self = to.ID
	}
	return v
}

// TestMayLose: whatever is allowed leaves a voter, and a majority of the voters alive;
// and one that has all files, if the node that goes could be asked for them.
func TestMayLose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := view{self: "n0", now: noon, steady: time.Second, reports: map[raft.ServerID]Report{}}
		alive, whole := map[raft.ServerID]bool{}, map[raft.ServerID]bool{}
		for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
			id := raft.ServerID(fmt.Sprintf("n%d", i))
			v.servers = append(v.servers, raft.Server{ID: id})
			if alive[id] = i == 0 || rapid.Bool().Draw(t, "alive"); alive[id] {
				whole[id] = rapid.Bool().Draw(t, "whole")
				n := Report{Heard: noon}
				if !whole[id] {
					n.Undurable = 1
				}
				v.reports[id] = n
			}
		}
		for _, s := range v.servers {
			voters, living, complete := 0, 0, 0
			for _, o := range v.servers {
				if o.ID != s.ID {
					voters++
					if alive[o.ID] {
						living++
					}
					if whole[o.ID] {
						complete++
					}
				}
			}
			err := v.mayLose(s.ID)
			var r *Refusal
			if ok := voters > 0 && 2*living > voters && (2*complete > voters || !alive[s.ID]); ok != (err == nil) || err != nil && !errors.As(err, &r) {
				t.Fatalf("%s of %v, alive %v: %v", s.ID, v.servers, alive, err)
			}
		}
	})
}

// TestPatience: a node waits for its files while they come, and not for ever.
func TestPatience(t *testing.T) {
	var p Patience
	if p.Waits(Health{}, noon) {
		t.Error("it waits for nothing")
	}
	now := noon
	for missing := int64(50); missing > 0; missing-- {
		now = now.Add(filesWait - time.Second)
		if !p.Waits(Health{MissingFiles: 1, MissingBytes: missing}, now) {
			t.Fatal("it does not wait although files come")
		}
	}
	if now = now.Add(filesWait); p.Waits(Health{MissingFiles: 1, MissingBytes: 1}, now) {
		t.Error("it waits for what does not come")
	}
}

// TestVerdict: the answer of a majority is what at least that many have said, whatever
// those say that have not answered; and none is expected any more if none can come.
func TestVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := rapid.SliceOfN(rapid.SampledFrom([]int{-1, 0, 0, 1, 2, 5}), 1, 7).Draw(t, "answers")
		slices.Sort(answers)
		majority := func(unknown int) (most int) {
			for n := -1; n <= 9; n++ {
				have := 0
				for _, a := range answers {
					if a == 0 {
						a = unknown
					}
					if a >= n {
						have++
					}
				}
				if 2*have > len(answers) {
					most = n
				}
			}
			return most
		}
		want := 0
		if worst, best := majority(-1), majority(9); worst > 0 {
			want = worst
		} else if best < 0 {
			want = -1
		}
		if got := verdict(answers); got != want {
			t.Fatalf("%v: %d, want %d", answers, got, want)
		}
	})
	if verdict(nil) != 0 {
		t.Error("nobody has something")
	}
}
