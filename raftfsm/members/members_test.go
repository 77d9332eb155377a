package members

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// life is what the naive model knows of an id: no record, but what happened to it.
type life struct {
	holder  Incarnation // the folder that stands for the id, 0: none or not known
	member  bool        // somebody does
	gone    bool        // somebody was removed, once
	last    Incarnation // the folder that was removed last
	invited bool        // and not joined since
	wish    bool        // of the member, or of the invitation
}

// world is the model: the rules as a person would say them, one after the other.
type world map[string]*life

func (w world) apply(c Change) error {
	l := w[c.ID]
	if l == nil {
		l = &life{}
	}
	nobodyEver := w[c.ID] == nil
	switch c.Op {
	case Join:
		switch {
		case l.member && l.holder == c.Incarnation:
			return nil
		case l.member && l.holder == 0 && c.HasData:
			l.holder = c.Incarnation // it introduces itself
			return nil
		case l.member:
			return ErrOtherFolder
		case c.HasData && !nobodyEver && !l.gone:
			return ErrOtherFolder // somebody else was invited
		case c.HasData && !nobodyEver, l.gone && l.last == c.Incarnation:
			return ErrRemoved
		}
		if l.invited {
			l.wish = l.wish && c.Voter
		} else {
			l.wish = c.Voter
		}
		l.member, l.holder, l.invited = true, c.Incarnation, false
	case Invite:
		if l.member {
			return ErrMember
		}
		l.invited, l.wish = true, c.Voter
	case Remove, Wish:
		if !l.member && !l.invited && !nobodyEver {
			return ErrRemoved
		}
		if c.Op == Wish {
			l.member, l.wish = l.member || nobodyEver, c.Voter
			break
		}
		if !l.invited {
			l.last = l.holder
		}
		l.gone, l.member, l.invited, l.holder = true, false, false, 0
	}
	w[c.ID] = l
	return nil
}

func (w world) String() string {
	var lines []string
	for id, l := range w {
		if l.member || l.invited {
			lines = append(lines, fmt.Sprintf("%s folder %d member %v invited %v voter %v", id, l.holder, l.member, l.invited, l.wish))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// show is the list as the model is shown.
func show(list List) string {
	var lines []string
	for _, m := range list {
		if !m.live() {
			continue
		}
		holder, member := m.Incarnation, !m.Removed && !m.Invited
		if !member {
			holder = 0
		}
		lines = append(lines, fmt.Sprintf("%s folder %d member %v invited %v voter %v", m.ID, holder, member, m.Invited, m.Voter))
	}
	return strings.Join(lines, "\n")
}

// TestModel compares lists with the model over random lives of a few ids and folders,
// and holds them to what must never happen, in words of its own: a folder that was
// removed comes back, or an empty one takes the place of one that may count.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list List
		w := world{}
		removed := map[string]bool{} // id and folder
		for index := uint64(1); index < 60; index++ {
			c := Change{
				Op: Op(rapid.IntRange(1, 4).Draw(t, "op")), ID: rapid.SampledFrom([]string{"a", "b", "b.c", "d-1"}).Draw(t, "id"),
				Voter: rapid.Bool().Draw(t, "voter"),
			}
			switch c.Op {
			case Join:
				c.Incarnation, c.HasData = Incarnation(rapid.IntRange(1, 4).Draw(t, "folder")), rapid.Bool().Draw(t, "data")
			case Remove:
				c.Voter = false
			}
			decoded, err := DecodeChange(c.Append(nil))
			if err != nil || decoded != c {
				t.Fatalf("%+v is decoded as %+v, %v", c, decoded, err)
			}
			before := slices.Clone(list)
			was, _ := list.Find(c.ID)
			next, err := list.Apply(index, c)
			if want := w.apply(c); !errors.Is(err, want) || err != nil && want == nil {
				t.Fatalf("%+v of %+v: %v, the model says %v", c, was, err, want)
			}
			if !slices.Equal(list, before) || err != nil && !slices.Equal(next, before) {
				t.Fatal("a list was changed in place, or by what was refused")
			}
			list = next
			if got, want := show(list), w.String(); got != want {
				t.Fatalf("%+v makes\n%s\nthe model has\n%s", c, got, want)
			}
			is, _ := list.Find(c.ID)
			if c.Op == Remove && err == nil && was.Incarnation != 0 {
				removed[fmt.Sprint(c.ID, was.Incarnation)] = true
			}
			// A folder is remembered as removed until another one has joined; whoever held it
			// then is refused because it is another folder.
			if c.Op == Join && err == nil && c.HasData && removed[fmt.Sprint(c.ID, c.Incarnation)] && is.Incarnation == c.Incarnation && was.Incarnation != c.Incarnation {
				t.Fatalf("%s came back with a folder that was removed", c.ID)
			}
			again, err := Decode(list.Encode(), index)
			if err != nil || !slices.Equal(again, list) {
				t.Fatalf("%v is decoded as %v, %v", list, again, err)
			}
		}
	})
}

// TestLimits: the list is bounded, and what it forgets is the oldest removal.
func TestLimits(t *testing.T) {
	var list List
	index := uint64(0)
	must := func(c Change) {
		t.Helper()
		index++
		var err error
		if list, err = list.Apply(index, c); err != nil {
			t.Fatal(err)
		}
	}
	id := func(i int) string { return fmt.Sprintf("n%04d", i) }
	for i := range MaxLive {
		must(Change{Op: Join, ID: id(i), Incarnation: 1})
	}
	if _, err := list.Apply(999, Change{Op: Join, ID: "x", Incarnation: 1}); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	for i := MaxLive; i < MaxRecords+10; i++ {
		must(Change{Op: Remove, ID: id(i - MaxLive)})
		must(Change{Op: Join, ID: id(i), Incarnation: 1})
	}
	if len(list) != MaxRecords {
		t.Errorf("%d records", len(list))
	}
	for i := range 11 {
		if _, known := list.Find(id(i)); known != (i >= 10) {
			t.Errorf("%s is remembered: %v", id(i), known)
		}
	}
	b := list.Encode()
	if again, err := Decode(b, index); err != nil || !slices.Equal(again, list) || len(b) > MaxListBytes {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := Decode(b, index-1); !errors.Is(err, ErrBytes) {
		t.Errorf("a change from the future: %v", err)
	}
}

// FuzzDecode: whatever is taken is what it is encoded as.
func FuzzDecode(f *testing.F) {
	f.Add(List{{ID: "a", Incarnation: 3, Voter: true, Changed: 4}, {ID: "b", Removed: true, Invited: true, Voter: true, Changed: 9}}.Encode())
	f.Add(Change{Op: Join, ID: "a", Incarnation: 1, HasData: true}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := Decode(b, 1<<40); err == nil && string(l.Encode()) != string(b) {
			t.Errorf("%x is decoded as %v", b, l)
		}
		if c, err := DecodeChange(b); err == nil && string(c.Append(nil)) != string(b) {
			t.Errorf("%x is decoded as %v", b, c)
		}
	})
}

// TestValidID holds ids to what a file name, a flag and a table can hold.
func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "N1": true, "n-1.example_org": true, strings.Repeat("x", 63): true,
		"": false, "-a": false, ".": false, "a b": false, "a/b": false, "ä": false, strings.Repeat("x", 64): false,
	} {
		if ValidID(id) != want {
			t.Errorf("%q", id)
		}
	}
}

// TestBytes is the golden one: docs/formats.md draws these.
func TestBytes(t *testing.T) {
	for want, got := range map[string][]byte{
		"0103000000000000080000000000000061": Change{Op: Join, ID: "a", Incarnation: 8, Voter: true, HasData: true}.Append(nil),
		"0300000000000000000000000000000062": Change{Op: Remove, ID: "b"}.Append(nil),
		"0101000000000000080000000000000005000000000000006102010000000000000000000000000000060000000000000062": List{
			{ID: "a", Incarnation: 8, Voter: true, Changed: 5}, {ID: "b", Removed: true, Changed: 6}}.Encode(),
	} {
		if fmt.Sprintf("%x", got) != want {
			t.Errorf("%x, want %s", got, want)
		}
	}
}

// TestAlone: all others are removed, whoever names them, but for the invited; and who was
// removed, or has another folder, is not left over.
func TestAlone(t *testing.T) {
	l := List{}
	for i, c := range []Change{
		{Op: Join, ID: "a", Incarnation: 1, Voter: true, HasData: true},
		{Op: Join, ID: "b", Incarnation: 2, Voter: true, HasData: true},
		{Op: Join, ID: "r", Incarnation: 3},
		{Op: Join, ID: "x", Incarnation: 4},
		{Op: Remove, ID: "x"},
		{Op: Invite, ID: "y", Voter: true},
	} {
		var err error
		if l, err = l.Apply(uint64(i+1), c); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := l.Alone(9, "r", 3, []string{"a", "b", "c", "r"})
	if err != nil {
		t.Fatal(err)
	}
	want := List{
		{ID: "a", Incarnation: 1, Removed: true, Changed: 9},
		{ID: "b", Incarnation: 2, Removed: true, Changed: 9},
		{ID: "c", Removed: true, Changed: 9},
		{ID: "r", Incarnation: 3, Voter: true, Changed: 9},
		{ID: "x", Incarnation: 4, Removed: true, Changed: 5},
		{ID: "y", Voter: true, Invited: true, Changed: 6},
	}
	if !slices.Equal(alone, want) {
		t.Errorf("%v, want %v", alone, want)
	}
	if again, err := alone.Alone(10, "r", 3, []string{"r"}); err != nil || !slices.Equal(again, want) {
		t.Errorf("once more: %v, %v", again, err)
	}
	if _, err := l.Alone(9, "x", 4, nil); !errors.Is(err, ErrRemoved) {
		t.Errorf("who was removed: %v", err)
	}
	if _, err := l.Alone(9, "b", 5, nil); !errors.Is(err, ErrOtherFolder) {
		t.Errorf("another folder: %v", err)
	}
}
