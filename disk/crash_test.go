package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestSyncedSurvives makes random calls on few files and crashes. What was synced
// (bytes, and name or absence of a name, and not touched since) is there; nothing
// is there that was never written; no name holds another file's bytes, and no file
// has two names.
func TestSyncedSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(rapid.Uint64().Draw(t, "seed"))
		for range 3 {
			for range rapid.IntRange(10, 40).Draw(t, "calls") {
				d.step(t)
			}
			d.m.Crash()
			d.check(t)
		}
	})
}

// written is what the model knows of a file. Each has a letter of its own, so that
// its bytes cannot be taken for another's.
type written struct {
	f      File // nil if it is from an earlier life
	letter byte
	data   string
	synced int
}

// spot is what the model knows of a name.
type spot struct {
	now *written // nil if there is no file
	// loose names the folders that must be synced before now is what a crash leaves.
	loose map[string]bool
	// letters of all files that ever stood here; one of them a crash may leave.
	letters string
}

type driver struct {
	m     *Mem
	files byte // made so far
	spots map[string]*spot
}

func newDriver(seed uint64) *driver {
	d := &driver{m: NewMem(seed), spots: map[string]*spot{}}
	for _, dir := range []string{"d", "e"} {
		if err := d.m.MkdirAll(dir); err != nil {
			panic(err)
		}
		for _, name := range []string{"a", "b"} {
			d.spots[path.Join(dir, name)] = &spot{loose: map[string]bool{}}
		}
	}
	return d
}

func (d *driver) step(t *rapid.T) {
	any := rapid.SampledFrom(slices.Sorted(maps.Keys(d.spots)))
	name := any.Draw(t, "name")
	at, dir := d.spots[name], path.Dir(name)
	var err error
	switch call := rapid.SampledFrom([]string{"create", "write", "sync", "syncdir", "rename", "remove"}).Draw(t, "call"); {
	case call == "syncdir":
		err = d.m.SyncDir(dir)
		for _, p := range d.spots {
			delete(p.loose, dir)
		}
	case call == "create" && at.now == nil: // truncation has its place in the transcripts
		d.files++
		at.now = &written{letter: '!' + d.files}
		at.now.f, err = d.m.Create(name)
		d.touch(name, name)
	case call == "rename" && at.now != nil:
		to := any.Draw(t, "to")
		err = d.m.Rename(name, to)
		d.spots[to].now = at.now
		if to != name {
			at.now = nil
			d.touch(name, to)
		}
	case call == "remove" && at.now != nil:
		err = d.m.Remove(name)
		at.now = nil
		d.touch(name, name)
	case call == "write" && at.now != nil && at.now.f != nil:
		n := rapid.SampledFrom([]int{1, 10, 700, 5000}).Draw(t, "bytes")
		s := strings.Repeat(string(at.now.letter), n)
		_, err = io.WriteString(at.now.f, s)
		at.now.data += s
	case call == "sync" && at.now != nil && at.now.f != nil:
		err = at.now.f.Sync()
		at.now.synced = len(at.now.data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// touch makes two names loose in both of their folders, and in those that what
// stood there still waits for.
func (d *driver) touch(names ...string) {
	loose := map[string]bool{}
	for _, name := range names {
		loose[path.Dir(name)] = true
		maps.Copy(loose, d.spots[name].loose)
	}
	for _, name := range names {
		p := d.spots[name]
		p.loose = maps.Clone(loose)
		if p.now != nil {
			p.letters += string(p.now.letter)
		}
	}
}

// check compares what the crash left with the promises. What is left is durable in
// the next life; nobody writes to it any more.
func (d *driver) check(t *rapid.T) {
	where := map[byte]string{}
	for name, p := range d.spots {
		b, err := d.m.ReadFile(name)
		there := err == nil
		if !there && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if len(p.loose) == 0 && there != (p.now != nil) {
			t.Fatalf("%s is there: %v, but it was promised: %v", name, there, p.now != nil)
		}
		if len(p.loose) == 0 && there && !strings.HasPrefix(string(b), p.now.data[:p.now.synced]) {
			t.Fatalf("%s holds %s, %d bytes were promised", name, shrink(b), p.now.synced)
		}
		left := &written{data: string(b), synced: len(b)}
		for _, c := range b {
			if c != 0 && (left.letter != 0 && left.letter != c || !strings.Contains(p.letters, string(c))) {
				t.Fatalf("%s holds %s, which was never written there", name, shrink(b))
			}
			left.letter = max(left.letter, c)
		}
		if twin := where[left.letter]; twin != "" && left.letter != 0 {
			t.Fatalf("%s and %s hold the same file", name, twin)
		}
		where[left.letter] = name
		*p = spot{loose: map[string]bool{}}
		if there {
			p.now, p.letters = left, string(left.letter)
		}
	}
}

// TestWriteFileIsAllOrNothing cuts the power before every call that WriteFile
// makes, on many disks: the file holds the old bytes or the new ones, and the new
// ones if WriteFile had returned nil.
func TestWriteFileIsAllOrNothing(t *testing.T) {
	versions := []string{strings.Repeat("old", 500), strings.Repeat("new!", 900)}
	seen := map[string]int{}
	for seed := range uint64(300) {
		for cut := range 8 {
			m := NewMem(seed)
			must(t, m.MkdirAll("d"))
			must(t, writeText(m.Mount(), "d", "f", versions[0]))
			must(t, m.Fault(fmt.Sprintf("on any * after %d crash", cut)))
			err := writeText(m.Mount(), "d", "f", versions[1])
			if err == nil {
				m.Crash()
			} else {
				fails(t, err, ErrPowerLost)
			}
			m.ClearFaults()
			got := slices.Index(versions, get(t, m, "d/f"))
			if got < 0 || err == nil && got != 1 {
				t.Fatalf("seed %d, cut at call %d (%v): d/f holds %d bytes", seed, cut, err, len(get(t, m, "d/f")))
			}
			seen[fmt.Sprint(got, err == nil)]++
		}
	}
	if len(seen) != 3 { // old, new before the return, new after it
		t.Errorf("outcomes %v, want three kinds", seen)
	}
}

func writeText(fsys FS, dir, name, text string) error {
	return WriteFile(fsys, dir, name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// TestWriteFileLeavesNothingLoose: at its return there is nothing a crash could
// change, and what it must not rely on fails it.
func TestWriteFileLeavesNothingLoose(t *testing.T) {
	m := NewMem(1)
	must(t, m.MkdirAll("d"))
	must(t, writeText(m, "d", "f", "old"))
	equal(t, fmt.Sprint(m.Unsynced()), "[]")
	for _, fault := range []string{
		"on create *.tmp fail", "on write *.tmp fail ENOSPC", "on sync *.tmp fail", "on rename d/f fail", "on syncdir d fail",
	} {
		must(t, m.Fault(fault))
		err := writeText(m, "d", "f", "new")
		var errno syscall.Errno
		if !errors.As(err, &errno) || !strings.Contains(err.Error(), "d/f") {
			t.Errorf("%s: error %v", fault, err)
		}
		equal(t, list(t, m, "d"), "f")
		m.ClearFaults()
	}
}

func TestSameSeedSameOutcome(t *testing.T) {
	lines := []string{
		"mkdir d", "create d/a", "write d/a 9000*a", "create d/b", "write d/b 9000*b", "sync d/b", "create c",
		"write c 20*c", "rename d/b e", "crash", "create d/x", "create y", "write y 700*y", "crash",
	}
	outcomes := map[string]bool{}
	for seed := range uint64(50) {
		var first string
		for range 2 {
			s := newScript(seed)
			for _, line := range lines {
				s.do(line)
			}
			if first == "" {
				first = tree(s.m)
			}
			equal(t, tree(s.m), first)
		}
		outcomes[first] = true
	}
	if len(outcomes) < 25 {
		t.Errorf("50 seeds gave %d outcomes", len(outcomes))
	}
}

// TestMountEndsWithItsLife: nothing of a crashed process reaches the next life.
func TestMountEndsWithItsLife(t *testing.T) {
	m := NewMem(1)
	must(t, m.MkdirAll("d"))
	old := m.Mount()
	put(t, old, "d/f", "x")
	f, err := old.Create("d/g")
	must(t, err)
	m.Crash()
	put(t, m, "d/new", "y")

	_, err = old.Create("d/h")
	fails(t, err, ErrPowerLost)
	fails(t, err, fs.ErrClosed)
	_, err = old.Open("d/new")
	fails(t, err, ErrPowerLost)
	_, err = old.List("d")
	fails(t, err, ErrPowerLost)
	fails(t, old.Rename("d/new", "d/z"), ErrPowerLost)
	fails(t, old.Remove("d/new"), ErrPowerLost)
	fails(t, old.MkdirAll("q"), ErrPowerLost)
	fails(t, old.SyncDir("d"), ErrPowerLost)
	_, err = f.Write([]byte("x"))
	fails(t, err, ErrPowerLost)
	_, err = f.ReadAt(make([]byte, 1), 0)
	fails(t, err, ErrPowerLost)
	_, err = f.Size()
	fails(t, err, ErrPowerLost)
	fails(t, f.Sync(), ErrPowerLost)
	fails(t, f.Close(), ErrPowerLost)
	equal(t, get(t, m.Mount(), "d/new"), "y")
}

// TestStall: a stalled call blocks itself and nobody else, until it is released,
// the faults are cleared, or the power goes.
func TestStall(t *testing.T) {
	for end, want := range map[string]error{"Release": nil, "ClearFaults": nil, "Crash": ErrPowerLost} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMem(1)
				f, err := m.Create("a.seg")
				must(t, err)
				must(t, m.Fault(`on sync "*.seg" stall`))
				var stalled sync.WaitGroup
				returned := 0
				stalled.Go(func() {
					err := f.Sync()
					returned++
					if !errors.Is(err, want) {
						t.Errorf("the stalled sync returned %v, want %v", err, want)
					}
				})
				synctest.Wait()
				put(t, m, "b.seg", "others go on")
				equal(t, returned, 0)
				map[string]func(){"Release": m.Release, "ClearFaults": m.ClearFaults, "Crash": m.Crash}[end]()
				stalled.Wait()
				equal(t, returned, 1)
			})
		})
	}
}

// TestTwoStalls: who leaves one stall by a release is not caught by another that
// the same release ended. (Found by the simulation.)
func TestTwoStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMem(1)
		f, err := m.Create("a")
		must(t, err)
		must(t, m.Fault(`on sync "*" stall`))
		must(t, m.Fault(`on sync "*" stall`))
		var stalled sync.WaitGroup
		stalled.Go(func() {
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		m.Release()
		stalled.Wait()
	})
}

// TestCloseBesideStall: a file that is closed while a call on it is stalled.
func TestCloseBesideStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMem(1)
		f, err := m.Create("f")
		must(t, err)
		must(t, m.Fault("on write * stall"))
		var stalled sync.WaitGroup
		stalled.Go(func() {
			n, err := f.Write([]byte("late"))
			if n != 0 || !errors.Is(err, fs.ErrClosed) {
				t.Errorf("wrote %d, %v", n, err)
			}
		})
		synctest.Wait()
		must(t, f.Close())
		m.Release()
		stalled.Wait()
		equal(t, tree(m), "f=")
	})
}

func TestDamage(t *testing.T) {
	m := NewMem(1)
	must(t, m.MkdirAll("d"))
	must(t, m.PutFile("d/f", []byte("aaaa")))
	open, err := m.Open("d/f")
	must(t, err)
	must(t, m.FlipBit("d/f", 25))
	equal(t, read(t, open), "aaac")
	saved, err := m.ReadFile("d/f")
	must(t, err)
	must(t, m.Truncate("d/f", 1))
	equal(t, read(t, open), "a")
	m.Crash()
	equal(t, get(t, m, "d/f"), "a")
	must(t, m.PutFile("d/f", saved))
	saved[0] = 'X'
	equal(t, get(t, m, "d/f"), "aaac")
	must(t, m.Lose("d/f"))
	m.Crash()
	equal(t, list(t, m, "d"), "")

	put(t, m, "d/f", "1")
	fails(t, m.FlipBit("d/f", 8), fs.ErrInvalid)
	fails(t, m.Truncate("d/f", 2), fs.ErrInvalid)
	fails(t, m.Truncate("d/f", -1), fs.ErrInvalid)
	fails(t, m.FlipBit("d/f", -9), fs.ErrInvalid)
	fails(t, m.FlipBit("d", 0), fs.ErrInvalid)
	fails(t, m.PutFile("d", nil), fs.ErrInvalid)
	fails(t, m.PutFile("no/f", nil), fs.ErrNotExist)
	fails(t, m.Lose("no"), fs.ErrNotExist)
	_, err = m.ReadFile("no")
	fails(t, err, fs.ErrNotExist)
}

// TestTwoWriters: two handles of one file, which the rooms never have, must not
// reach into what a sync made durable.
func TestTwoWriters(t *testing.T) {
	for seed := range uint64(40) {
		s := newScript(seed)
		for _, line := range []string{"create f", "write f abcdef", "sync f", "syncdir ."} {
			equal(t, s.do(line), "")
		}
		first := s.open["f"]
		equal(t, s.do("create f"), "")
		equal(t, s.do("write f XY"), "")
		_, err := first.Write([]byte("ghi"))
		must(t, err)
		equal(t, tree(s.m), "f=XY(4*.)ghi")
		equal(t, s.do("write f Z"), "")
		equal(t, tree(s.m), "f=XYZ...ghi")
		equal(t, s.do("sync f"), "")
		s.m.Crash()
		equal(t, tree(s.m), "f=XYZ...ghi")
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	m := NewMem(1)
	must(t, m.MkdirAll("d"))
	must(t, m.Fault("on write * after 40 times 3 fail"))
	must(t, m.Fault("on read * flip bit 0"))
	var users sync.WaitGroup
	for u := range 4 {
		users.Go(func() {
			for i := range 50 {
				// Some of these fail by the fault or the crash; that is not the point.
				name := fmt.Sprintf("f%d", i%5)
				_ = writeText(m, "d", name, fmt.Sprint(u, i))
				if f, err := m.Open("d/" + name); err == nil {
					_, _ = f.ReadAt(make([]byte, 3), 0)
					_, _ = f.Size()
					_ = f.Close()
				}
				_, _ = m.List("d")
				_ = m.Remove("d/" + name)
				m.Unsynced()
				if i%20 == u {
					m.Crash()
				}
			}
		})
	}
	users.Wait()
	must(t, writeText(m, "d", "last", "x"))
	equal(t, get(t, m, "d/last")[1:], "")
}

// TestWipe: nothing is left, and who used the disk before meets a lost power.
func TestWipe(t *testing.T) {
	m := NewMem(1)
	before := m.Mount()
	f, err := before.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), before.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	m.Wipe()
	if _, err := f.Write([]byte("y")); !errors.Is(err, ErrPowerLost) {
		t.Errorf("a write to the old disk: %v", err)
	}
	m.Crash()
	if infos, err := m.List("."); err != nil || len(infos) > 0 {
		t.Errorf("the new disk holds %v, %v", infos, err)
	}
}
