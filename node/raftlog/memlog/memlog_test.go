package memlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"chorale/disk"

	"github.com/hashicorp/raft"
)

// What was acknowledged is there after a crash at any moment, and what was not is
// there as a whole operation or not at all.
func TestCrash(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		mem := disk.NewMem(seed)
		l, err := Open(mem, "raft")
		if err != nil {
			t.Fatal(err)
		}
		want := raft.NewInmemStore()
		for range 60 {
			step(t, rng, l, want)
			if rng.IntN(10) == 0 {
				mem.Crash()
				if l, err = Open(mem, "raft"); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, l, want)
		}
		files, err := mem.List("raft")
		if err != nil || len(files) > 2 {
			t.Errorf("%d files are left: %v", len(files), err)
		}
	}
}

func step(t *testing.T, rng *rand.Rand, l *Log, want *raft.InmemStore) {
	t.Helper()
	first, _ := want.FirstIndex()
	last, _ := want.LastIndex()
	switch n := rng.IntN(5); {
	case n < 3 || last == 0:
		var logs []*raft.Log
		for i := range uint64(1 + rng.IntN(3)) {
			logs = append(logs, &raft.Log{Index: last + 1 + i, Term: rng.Uint64N(9), Type: raft.LogBarrier, Data: make([]byte, rng.IntN(50)), Extensions: []byte("x")})
		}
		must(t, l.StoreLogs(logs))
		must(t, want.StoreLogs(logs))
	case n == 3:
		from, to := first+rng.Uint64N(last-first+1), last
		if rng.IntN(2) == 0 {
			from, to = first, from
		}
		must(t, l.DeleteRange(from, to))
		must(t, want.DeleteRange(from, to))
	default:
		k := fmt.Appendf(nil, "k%d", rng.IntN(3))
		v := rng.Uint64()
		must(t, l.SetUint64(k, v))
		must(t, want.SetUint64(k, v))
	}
}

func compare(t *testing.T, l *Log, want *raft.InmemStore) {
	t.Helper()
	first, _ := want.FirstIndex()
	last, _ := want.LastIndex()
	gotFirst, _ := l.FirstIndex()
	gotLast, _ := l.LastIndex()
	if last > 0 && (gotFirst != first || gotLast != last) {
		t.Fatalf("entries %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
	for i := first; i <= last && i > 0; i++ {
		var a, b raft.Log
		if err := l.GetLog(i, &a); err != nil {
			t.Fatal(i, err)
		}
		want.GetLog(i, &b)
		if a.Index != b.Index || a.Term != b.Term || a.Type != b.Type || !bytes.Equal(a.Data, b.Data) || !bytes.Equal(a.Extensions, b.Extensions) {
			t.Fatalf("entry %d is %+v, want %+v", i, a, b)
		}
	}
	for i := range 3 {
		k := fmt.Appendf(nil, "k%d", i)
		got, _ := l.GetUint64(k)
		if v, _ := want.GetUint64(k); got != v {
			t.Fatalf("%s is %d, want %d", k, got, v)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A sync that fails is told, and what it was for is not visible.
func TestFailedSync(t *testing.T) {
	mem := disk.NewMem(1)
	l, err := Open(mem, "raft")
	must(t, err)
	must(t, l.StoreLog(&raft.Log{Index: 1}))
	must(t, mem.Fault(`on sync "raft/*" fail EIO`))
	if err := l.StoreLog(&raft.Log{Index: 2}); err == nil {
		t.Error("a failed sync was not told")
	}
	if last, _ := l.LastIndex(); last != 1 {
		t.Errorf("the log ends at %d", last)
	}
}
