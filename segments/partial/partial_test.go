package partial

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// content is a file of so many bytes, and its description.
func content(seed uint64, bytes int) ([]byte, manifest.FileMeta) {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b, manifest.FileMeta{Kind: manifest.KindSegment, First: seed*10 + 1, Last: seed*10 + 9, Bytes: int64(bytes), Hash: sha256.Sum256(b)}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, fsys disk.FS) *Store {
	t.Helper()
	s, err := Open(fsys, "partial")
	check(t, err)
	check(t, fsys.MkdirAll("segments"))
	return s
}

// TestResume: a copy that broke off goes on at its byte in another life, and is whole
// then.
func TestResume(t *testing.T) {
	fsys := disk.NewMem(1)
	b, m := content(1, 1000)
	s := open(t, fsys)
	p, err := s.Resume(m)
	check(t, err)
	_, err = p.Write(b[:300])
	check(t, err)
	if _, err := s.Resume(m); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
	if n, err := s.Remove(m.Name()); n != 0 || err != nil {
		t.Errorf("removed under its writer: %d, %v", n, err)
	}
	check(t, p.Keep())

	s = open(t, fsys)
	if n, ok := s.Begun(m); n != 300 || !ok {
		t.Errorf("begun: %d, %v", n, ok)
	}
	p, err = s.Resume(m)
	check(t, err)
	if p.Offset() != 300 || p.Resumed() != 300 || p.Dropped() != 0 {
		t.Errorf("resumed at %d, had %d, dropped %d", p.Offset(), p.Resumed(), p.Dropped())
	}
	_, err = p.Write(b[300:])
	check(t, err)
	if _, err := p.Write([]byte{0}); !errors.Is(err, ErrBad) {
		t.Errorf("behind the end: %v", err)
	}
	check(t, p.Finish())
	check(t, p.MoveTo("segments/"+m.Name()))
	got, err := fsys.ReadFile("segments/" + m.Name())
	check(t, err)
	if n, size := s.Stats(); !bytes.Equal(got, b) || n != 0 || size != 0 || len(fsys.Unsynced()) > 0 {
		t.Errorf("%d bytes came, left %d of %d bytes, not durable %v", len(got), n, size, fsys.Unsynced())
	}
}

// TestBad: what is not the file is thrown away, whatever life it is from, and the next
// copy is sound.
func TestBad(t *testing.T) {
	b, m := content(1, 1000)
	flipped := bytes.Clone(b)
	flipped[10] ^= 1
	for what, left := range map[string][]byte{"other bytes": flipped[:500], "all of other bytes": flipped, "too long": append(bytes.Clone(b), 1)} {
		fsys := disk.NewMem(1)
		check(t, fsys.MkdirAll("partial"))
		check(t, fsys.PutFile("partial/"+m.Name()+suffix, left))
		s := open(t, fsys)
		p, err := s.Resume(m)
		check(t, err)
		if long := len(left) > len(b); long != (p.Dropped() == int64(len(left))) || long != (p.Offset() == 0) {
			t.Errorf("%s: at %d, dropped %d", what, p.Offset(), p.Dropped())
		}
		for try := range 2 {
			_, err = p.Write(b[p.Offset():])
			check(t, err)
			err = p.Finish()
			if err == nil {
				check(t, p.MoveTo("segments/"+m.Name()))
				break
			}
			if !errors.Is(err, ErrBad) || try == 1 {
				t.Fatalf("%s: %v", what, err)
			}
			if n, _ := s.Stats(); n != 0 {
				t.Errorf("%s: the bad copy is still there", what)
			}
			p, err = s.Resume(m)
			check(t, err)
		}
	}
}

// life fetches what is missing of a file, in writes of some bytes, and returns how many
// were fetched.
func life(fsys disk.FS, b []byte, m manifest.FileMeta, chunk int) (fetched int, err error) {
	if f, err := fsys.Open("segments/" + m.Name()); err == nil {
		return 0, f.Close()
	}
	s, err := Open(fsys, "partial")
	if err == nil {
		err = fsys.MkdirAll("segments")
	}
	if err != nil {
		return 0, err
	}
	p, err := s.Resume(m)
	if err != nil {
		return 0, err
	}
	for int(p.Offset()) < len(b) {
		at := int(p.Offset())
		n := min(chunk, len(b)-at)
		fetched += n
		if _, err := p.Write(b[at:][:n]); err != nil {
			return fetched, errors.Join(err, p.Keep())
		}
	}
	if err := p.Finish(); err != nil {
		return fetched, err
	}
	return fetched, p.MoveTo("segments/" + m.Name())
}

func whole(t *testing.T, fsys *disk.Mem, b []byte, m manifest.FileMeta, what string) {
	t.Helper()
	got, err := fsys.ReadFile("segments/" + m.Name())
	check(t, err)
	if !bytes.Equal(got, b) {
		t.Fatalf("%s: another file was installed", what)
	}
	if left, _ := fsys.List("partial"); len(left) > 0 {
		t.Fatalf("%s: left behind: %v", what, left)
	}
}

// TestPowerLostAtEveryStep: the power goes at any step of a fetch, twice: the file is whole
// in the end, nothing else ever has its name, and each loss costs at most what had not
// reached the disk, and one copy, if it tore what is left.
func TestPowerLostAtEveryStep(t *testing.T) {
	b, m := content(1, 2000)
	for seed := range uint64(20) {
		for step, through := 0, false; !through; step++ {
			fsys := disk.NewMem(seed)
			check(t, fsys.Fault(fmt.Sprintf("on any * after %d crash", step)))
			fetched, lost := 0, 0
			for tries := 0; ; tries++ {
				n, err := life(fsys.Mount(), b, m, 300)
				if fetched += n; err == nil {
					through = tries == 0
					break
				}
				if !errors.Is(err, disk.ErrPowerLost) && !errors.Is(err, ErrBad) || tries > 4 {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				if errors.Is(err, disk.ErrPowerLost) {
					if lost++; lost == 1 {
						check(t, fsys.Fault(fmt.Sprintf("on any * after %d crash", step/2)))
					}
				}
			}
			fsys.Crash()
			whole(t, fsys, b, m, fmt.Sprintf("seed %d, step %d", seed, step))
			if fetched > (1+2*lost)*len(b) {
				t.Fatalf("seed %d, step %d: %d bytes for a file of %d, %d losses", seed, step, fetched, len(b), lost)
			}
		}
	}
}

// TestKilledAtEveryStep: the process ends at any step, again and again, and the disk keeps
// what was written: each byte is fetched once, but for those of the write that was cut
// short.
func TestKilledAtEveryStep(t *testing.T) {
	b, m := content(1, 2000)
	for step := range 12 {
		fsys := disk.NewMem(1)
		fetched, kills := 0, 0
		for ; ; kills++ {
			check(t, fsys.Fault(fmt.Sprintf("on any * after %d fail EIO", step+3)))
			n, err := life(fsys.Mount(), b, m, 300)
			fsys.ClearFaults()
			if fetched += n; err == nil {
				break
			}
			if errors.Is(err, ErrBad) || kills > 100 {
				t.Fatalf("step %d: %v", step, err)
			}
			if step < 8 && kills > 20 { // too short a life to come anywhere
				n, err = life(fsys.Mount(), b, m, 300)
				check(t, err)
				fetched += n
				break
			}
		}
		whole(t, fsys, b, m, fmt.Sprint("step ", step))
		if fetched > len(b)+300*(kills+1) {
			t.Fatalf("step %d: %d bytes for a file of %d, %d kills", step, fetched, len(b), kills)
		}
	}
}

// TestFailedSync: bytes that could not be made durable are not relied on.
func TestFailedSync(t *testing.T) {
	fsys := disk.NewMem(1)
	b, m := content(1, 1000)
	check(t, fsys.Fault("on sync *.part times 1 fail EIO"))
	if _, err := life(fsys, b, m, 500); err == nil || errors.Is(err, ErrBad) {
		t.Fatal(err)
	}
	n, err := life(fsys, b, m, 500)
	check(t, err)
	if n != len(b) {
		t.Errorf("%d bytes were fetched anew, want all %d", n, len(b))
	}
	whole(t, fsys, b, m, "behind a failed sync")
}

// TestFull: what fits on a full disk stays, and the copy goes on when there is room.
func TestFull(t *testing.T) {
	fsys := disk.NewMem(1)
	b, m := content(1, 1000)
	check(t, fsys.Fault("on write *.part limit 650 fail ENOSPC"))
	if _, err := life(fsys, b, m, 100); err == nil {
		t.Fatal("the disk was full")
	}
	fsys.ClearFaults()
	n, err := life(fsys, b, m, 100)
	check(t, err)
	if n != 350 {
		t.Errorf("%d bytes were fetched anew", n)
	}
	whole(t, fsys, b, m, "on a full disk")
}

// TestForeign: the folder holds nothing else, and who opens it is told what is.
func TestForeign(t *testing.T) {
	for _, name := range []string{"notes.txt", "00000000000000000001-00000000000000000009-0123456789abcdef.seg", "x.part"} {
		fsys := disk.NewMem(1)
		check(t, fsys.MkdirAll("partial"))
		check(t, fsys.PutFile("partial/"+name, nil))
		if _, err := Open(fsys, "partial"); !errors.Is(err, format.ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnwanted: what nothing wants is named, and of the rest what is too much, the
// smallest first; never what is being written.
func TestUnwanted(t *testing.T) {
	fsys := disk.NewMem(1)
	s := open(t, fsys)
	var names []string
	for i := range 6 {
		b, m := content(uint64(i), 1000)
		p, err := s.Resume(m)
		check(t, err)
		_, err = p.Write(b[:100*(6-i)])
		check(t, err)
		names = append(names, m.Name())
		if i > 0 {
			check(t, p.Keep())
		}
	}
	if got := s.Unwanted(func(name string) bool { return name != names[2] && name != names[0] }, 2); !slices.Equal(got[1:], []string{names[5], names[4]}) &&
		!slices.Equal(got, []string{names[2], names[5], names[4]}) {
		t.Errorf("%v", got)
	}
	if n, err := s.Remove(names[2]); n != 400 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, bytes := s.Stats(); n != 5 || bytes != 1700 {
		t.Errorf("%d files, %d bytes", n, bytes)
	}
}
