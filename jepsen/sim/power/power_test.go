package power

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"chorale/disk"

	"github.com/hashicorp/raft"
)

func logs(from, to uint64, term uint64) (out []*raft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: fmt.Appendf(nil, "entry %d.%d", i, term)})
	}
	return out
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, m *disk.Mem) *Journal {
	t.Helper()
	j, err := OpenJournal(NewDrive(m.Mount(), 1))
	check(t, err)
	return j
}

func expect(t *testing.T, j *Journal, first, last uint64) {
	t.Helper()
	f, _ := j.FirstIndex()
	l, _ := j.LastIndex()
	if f != first || l != last {
		t.Fatalf("the journal holds %d to %d, want %d to %d", f, l, first, last)
	}
}

func TestJournalKeepsWhatItAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMem(1)
		j := open(t, m)
		check(t, j.StoreLogs(logs(1, 10, 1)))
		check(t, j.SetUint64([]byte("term"), 7))
		check(t, j.DeleteRange(8, 10))
		check(t, j.StoreLogs(logs(8, 9, 2)))
		check(t, j.DeleteRange(1, 3))
		m.Crash()
		if err := j.StoreLogs(logs(10, 10, 2)); err == nil {
			t.Fatal("a journal of a dead node still writes")
		}
		j = open(t, m)
		expect(t, j, 4, 9)
		var l raft.Log
		check(t, j.GetLog(8, &l))
		if l.Term != 2 || string(l.Data) != "entry 8.2" {
			t.Fatalf("entry 8 is %+v", l)
		}
		if v, err := j.GetUint64([]byte("term")); v != 7 || err != nil {
			t.Fatal(v, err)
		}
		if _, err := j.Get([]byte("none")); err == nil || err.Error() != "not found" {
			t.Fatal(err)
		}
	})
}

// Raft leaves a gap behind an installed snapshot, then deletes what lies before.
func TestJournalWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := open(t, disk.NewMem(1))
		check(t, j.StoreLogs(logs(1, 5, 1)))
		check(t, j.StoreLogs(logs(50, 52, 3)))
		expect(t, j, 1, 52)
		check(t, j.DeleteRange(1, 40))
		expect(t, j, 50, 52)
		check(t, j.DeleteRange(50, 52))
		expect(t, j, 0, 0)
	})
}

// What a killed process had written and not synced is read by the next, which must
// make it durable first: the power may go later.
func TestJournalSyncsWhatItFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(20) {
			m := disk.NewMem(seed)
			d := NewDrive(m.Mount(), 1)
			j, err := OpenJournal(d)
			check(t, err)
			check(t, m.Fault(`on sync "*" lie`)) // the process is killed in the middle
			check(t, j.StoreLogs(logs(1, 3, 1)))
			d.Off()
			m.ClearFaults()
			if err := j.StoreLogs(logs(4, 4, 1)); !errors.Is(err, ErrOff) {
				t.Fatalf("a write of an ended process: %v", err)
			}
			expect(t, open(t, m), 1, 3)
			m.Crash()
			expect(t, open(t, m), 1, 3)
		}
	})
}

// Without its sync a journal must lose something in some crash; otherwise the
// simulation could not notice a product that forgets to sync.
func TestACrashTakesWhatWasNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		for seed := range uint64(20) {
			m := disk.NewMem(seed)
			j := open(t, m)
			check(t, m.Fault(`on sync "*" lie`))
			check(t, j.StoreLogs(logs(1, 10, 1)))
			m.Crash()
			m.ClearFaults()
			if last, _ := open(t, m).LastIndex(); last < 10 {
				lost++
			}
		}
		if lost == 0 {
			t.Fatal("20 crashes lost nothing")
		}
	})
}

func TestSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMem(3)
		s, err := OpenSnapshots(NewDrive(m.Mount(), 1))
		check(t, err)
		for i := uint64(1); i <= 4; i++ {
			k, err := s.Create(1, 10*i, 1, raft.Configuration{}, 1, nil)
			check(t, err)
			_, err = fmt.Fprintf(k, "state at %d", 10*i)
			check(t, err)
			if i < 4 {
				check(t, k.Close())
			}
		}
		m.Crash()
		s, err = OpenSnapshots(NewDrive(m.Mount(), 1))
		check(t, err)
		list, err := s.List()
		check(t, err)
		if len(list) != 2 || list[0].Index != 30 || list[1].Index != 20 {
			t.Fatalf("list %+v", list)
		}
		meta, r, err := s.Open(list[0].ID)
		check(t, err)
		b, err := io.ReadAll(r)
		check(t, err)
		if !bytes.Equal(b, []byte("state at 30")) || meta.Size != int64(len(b)) {
			t.Fatalf("snapshot %q, meta %+v", b, meta)
		}
	})
}
