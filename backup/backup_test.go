package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"chorale/disk"
	"chorale/segments"
)

// golden is a description whose file is in testdata.
var golden = Description{
	Format: 1, Cluster: "0102030000000000000000000000ffff", Seq: 1234567, Time: time.Unix(1_700_000_000, 123456789).UTC(), OldestSeq: 17,
	Topics: 12, Producers: 3, Files: 41, Bytes: 987654321,
	State: StateFile{Name: "state-00000000000001234567-00112233445566aa.snap", Bytes: 4242, SHA256: strings.Repeat("00112233445566aa", 4)},
	Taken: time.Unix(1_700_000_100, 0).UTC(), Node: "n2", Version: "v1.0.0",
}

// TestDescription: its file is as it always was, is read back, and no bit of it can
// change unnoticed.
func TestDescription(t *testing.T) {
	want, err := os.ReadFile("testdata/backup.json")
	if err != nil {
		t.Fatal(err)
	}
	b := golden.encode()
	if string(b) != string(want) {
		t.Errorf("encoded:\n%s", b)
	}
	d, err := decode(want)
	if err != nil || string(d.encode()) != string(want) {
		t.Errorf("decoded %+v, %v", d, err)
	}
	for bit := range len(b) * 8 {
		damaged := slices.Clone(b)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := decode(damaged); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	newer := strings.Replace(string(b), `"format": 1`, `"format": 2, "more": []`, 1)
	if _, err := decode([]byte(newer)); !errors.Is(err, ErrNewer) {
		t.Errorf("newer: %v", err)
	}
}

// TestIncremental: a second backup copies what is new, reads what is here, and removes
// what is of no use any more.
func TestIncremental(t *testing.T) {
	c, to := newCluster(t, 1), disk.NewMem(1)
	c.publish(25)
	first := c.mustTake(to)
	files := len(c.history.Manifest().Files)
	if first.Seq != 25 || first.Copied != files || first.Kept != 0 || files < 2 || sound(t, to) != 25 {
		t.Fatalf("first: %+v of %d files", first, files)
	}
	c.publish(25)
	c.expire()
	second := c.mustTake(to)
	want := Taken{Description: second.Description, Before: 25, Copied: second.Files - files + 1, Kept: files - 1, Removed: 1, Cuts: 1, CopiedBytes: second.CopiedBytes}
	if second != want || sound(t, to) != 50 {
		t.Errorf("second: %+v, want %+v", second, want)
	}
	third := c.mustTake(to)
	if third.Copied != 0 || third.Kept != second.Files || third.Removed != 0 || third.State != second.State {
		t.Errorf("third: %+v", third)
	}
	if names := namesIn(t, to, "."); len(names) != 3 {
		t.Errorf("in the folder: %v", names)
	}
}

// TestNothingYet: a cluster without a message has a backup, and one without a genesis
// has not.
func TestNothingYet(t *testing.T) {
	c, to := newCluster(t, 1), disk.NewMem(1)
	if took := c.mustTake(to); took.Seq != 0 || took.Files != 0 || sound(t, to) != 0 {
		t.Errorf("%+v", took)
	}
	if err := restore(to, &target{fs: disk.NewMem(1)}); err != nil {
		t.Error(err)
	}
}

// TestFilesThatGo: what an edit takes away between the state and the copy is left out,
// and a newer state taken; not for ever.
func TestFilesThatGo(t *testing.T) {
	c, to := newCluster(t, 1), disk.NewMem(1)
	c.publish(40)
	times := 0
	c.afterState = func() {
		if times++; times == 1 {
			c.expire()
			c.publish(8)
		}
	}
	took := c.mustTake(to)
	if took.Cuts != 2 || took.Seq != 48 || sound(t, to) != 48 {
		t.Errorf("%+v", took)
	}
	if took.Copied+took.Kept != took.Files {
		t.Errorf("%d copied and %d kept of %d: one was looked at twice", took.Copied, took.Kept, took.Files)
	}

	c.publish(40)
	c.afterState = c.lose
	_, err := c.take(to)
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "name all nodes with --addr") || sound(t, to) != 48 {
		t.Errorf("a file that nobody has: %v", err)
	}
}

// lose removes a data file behind the node's back, once.
func (c *cluster) lose() {
	files := c.history.Manifest().Files
	_ = c.disk.Remove("data/" + files[len(files)-1].Name())
}

// TestRefusals: what cannot be done is said with what to do, and changes nothing.
func TestRefusals(t *testing.T) {
	c, to := newCluster(t, 1), disk.NewMem(1)
	c.publish(25)
	c.mustTake(to)
	before := snapshotOf(t, to)
	c.publish(25)
	for what, want := range map[string]struct {
		run  func() error
		says string
	}{
		"another cluster": {func() error {
			other := newCluster(t, 2)
			other.publish(60)
			_, err := other.take(to)
			return err
		}, "of cluster 01000000000000000000000000000000, and node n1 is of cluster 02"},
		"a node that is behind": {func() error {
			behind := newCluster(t, 1)
			behind.publish(3)
			_, err := behind.take(to)
			return err
		}, "the backup here reaches seq 25, and node n1 has no more than 3"},
		"a node that fails": {func() error {
			c.broken = errors.New("node down")
			defer func() { c.broken = nil }()
			_, err := c.take(to)
			return err
		}, "node down"},
		"too little space": {func() error {
			_, err := Take{To: to, Source: c, Space: func() (int64, error) { return 100, nil }}.Run(context.Background())
			return err
		}, "too little space: "},
		"files that are given wrong": {func() error {
			c.spoilt = true
			defer func() { c.spoilt = false }()
			_, err := c.take(to)
			return err
		}, "chorale verify --deep"},
	} {
		err := want.run()
		if err == nil || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", what, err)
		}
		_ = to.Remove(newStateFile)
		if after := snapshotOf(t, to); after != before {
			t.Errorf("%s: the folder has changed:\n%s\nwas\n%s", what, after, before)
		}
	}

	foreign := disk.NewMem(1)
	if err := foreign.PutFile("holiday.jpg", []byte("JFIF")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.take(foreign); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "holiday.jpg") {
		t.Errorf("a folder with something else: %v", err)
	}
	if _, _, err := verify(foreign); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "something else") {
		t.Errorf("no backup: %v", err)
	}
	if _, _, err := verify(disk.NewMem(1)); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
	if len(namesIn(t, foreign, ".")) != 1 {
		t.Error("a foreign folder was written to")
	}
}

// TestDamage: in whatever file a bit flips, it is found, not restored, and mended by the
// next backup.
func TestDamage(t *testing.T) {
	c, to := newCluster(t, 1), disk.NewMem(1)
	c.publish(25)
	took := c.mustTake(to)
	names := []string{took.State.Name, descriptionFile}
	for _, f := range c.history.Manifest().Files {
		names = append(names, path.Join(dataDir, f.Name()))
	}
	for _, name := range names {
		whole, err := to.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for how, damage := range map[string]func() error{
			"flipped": func() error { return to.FlipBit(name, int64(len(whole))*4) },
			"cut":     func() error { return to.Truncate(name, int64(len(whole))-1) },
			"longer":  func() error { return to.PutFile(name, append(slices.Clone(whole), 0)) },
			"gone":    func() error { return to.Remove(name) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if _, bad, err := verify(to); err == nil && len(bad) != 1 {
				t.Errorf("%s %s: %v %v", how, name, bad, err)
			}
			x := &target{fs: disk.NewMem(1)}
			if err := restore(to, x); err == nil || x.founded != nil {
				t.Errorf("%s %s: restored, %v", how, name, err)
			}
			if name != descriptionFile {
				if again, err := c.take(to); err != nil || again.Copied+again.Kept != again.Files {
					t.Errorf("%s %s: %+v %v", how, name, again, err)
				}
				sound(t, to)
			}
			if err := to.PutFile(name, whole); err != nil {
				t.Fatal(err)
			}
			sound(t, to)
		}
	}
	// The way out that a damaged description names.
	if err := to.FlipBit(descriptionFile, 77); err != nil {
		t.Fatal(err)
	}
	if _, err := c.take(to); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `rename the file to "unfinished"`) {
		t.Errorf("a damaged description: %v", err)
	}
	if err := to.Rename(descriptionFile, unfinishedFile); err != nil {
		t.Fatal(err)
	}
	if again := c.mustTake(to); again.Copied != 0 || sound(t, to) != 25 {
		t.Errorf("after that: %+v", again)
	}
}

func namesIn(t *testing.T, fsys disk.FS, dir string) (names []string) {
	t.Helper()
	entries, err := list(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// snapshotOf is all that a backup holds, as text.
func snapshotOf(t *testing.T, m *disk.Mem) string {
	var out strings.Builder
	for _, dir := range []string{".", dataDir} {
		for _, name := range namesIn(t, m, dir) {
			if b, err := m.ReadFile(path.Join(dir, name)); err == nil {
				fmt.Fprintf(&out, "%s/%s %x\n", dir, name, segments.Hash(sha(b)))
			}
		}
	}
	return out.String()
}
