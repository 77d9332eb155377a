package machine

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// state is a captured state that writes nothing.
type state struct{}

func (state) Persist(raft.SnapshotSink) error { return nil }
func (state) Release()                        {}

// walk does what Raft does with snapshots, a step a word, and returns how each step that may
// be refused went. "o" is the one that is made here, "i" the one that comes in.
func walk(t *testing.T, steps string) string {
	t.Helper()
	p := &passage{}
	s := &store{raft.NewInmemSnapshotStore(), p}
	_, transport := raft.NewInmemTransport("")
	var made raft.FSMSnapshot
	sinks := map[byte]raft.SnapshotSink{}
	var out []string
	for _, step := range strings.Fields(steps) {
		var err error
		switch who, what, _ := strings.Cut(step, "."); what {
		case "capture":
			made, err = p.make(func() (raft.FSMSnapshot, error) { return state{}, nil })
		case "create":
			sinks[who[0]], err = s.Create(1, 7, 1, raft.Configuration{}, 1, transport)
		case "persist":
			err = made.Persist(sinks['o'])
		case "close":
			err = sinks[who[0]].Close()
		case "cancel":
			err = sinks[who[0]].Cancel()
		case "restored":
			p.taken()
		case "lost":
			_, _, err = s.Open("nothing")
			if err == nil {
				t.Fatal("a snapshot was opened that is not there")
			}
			continue
		case "release":
			made.Release()
		default:
			t.Fatalf("unknown step %q", step)
		}
		switch {
		case errors.Is(err, ErrBusy):
			out = append(out, step)
		case err != nil:
			t.Fatalf("%s: %v", step, err)
		}
	}
	return strings.Join(out, " ")
}

// TestPassage: of a snapshot that is made and one that comes in, at the same time, one is
// refused, whichever way their steps mix; and none of it stays behind.
func TestPassage(t *testing.T) {
	const again = " o.capture o.create o.persist o.close o.release i.create i.close i.restored"
	for _, c := range []struct{ steps, refused string }{
		{"o.capture o.create o.persist o.close o.release", ""},
		{"i.create i.close i.restored", ""},
		{"i.create i.cancel", ""},
		{"i.create o.capture i.close o.capture i.restored", "o.capture o.capture"},
		{"i.create i.close o.capture o.capture i.restored", "o.capture o.capture"},
		{"i.create i.close i.lost", ""},
		{"o.capture i.create o.create o.persist o.close o.release i.close", "i.close"},
		{"o.capture o.create i.create o.persist i.close o.close o.release", "i.close"},
		{"o.capture o.create o.persist i.create o.close o.release i.close", "i.close"},
		{"o.capture o.create o.persist o.close i.create o.release i.close", "i.close"},
		{"o.capture i.create i.cancel o.release", ""},
		{"o.capture o.release i.create i.close i.restored", ""},
	} {
		if got := walk(t, c.steps+again); got != c.refused {
			t.Errorf("%s: refused %q, want %q", c.steps, got, c.refused)
		}
	}
}
