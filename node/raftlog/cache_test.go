package raftlog

import (
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// reads counts what reaches the store below.
type reads struct {
	raft.LogStore
	n int
}

func (r *reads) GetLog(i uint64, l *raft.Log) error {
	r.n++
	return r.LogStore.GetLog(i, l)
}

func TestCacheKeepsNewestBytes(t *testing.T) {
	below := &reads{LogStore: raft.NewInmemStore()}
	c := NewCache(below, 1000)
	for i := uint64(1); i <= 10; i++ {
		c.StoreLog(&raft.Log{Index: i, Data: make([]byte, 172)}) // 300 bytes with what it costs
	}
	var l raft.Log
	for i := uint64(8); i <= 10; i++ {
		if err := c.GetLog(i, &l); err != nil || l.Index != i {
			t.Error(i, l.Index, err)
		}
	}
	if below.n != 0 {
		t.Errorf("%d reads below", below.n)
	}
	if c.GetLog(7, &l); below.n != 1 {
		t.Error("entry 7 is cached beyond the limit")
	}
	c.StoreLog(&raft.Log{Index: 11, Data: make([]byte, 5000)})
	if c.GetLog(11, &l); below.n != 1 {
		t.Error("the newest entry is not cached")
	}
}

// The cache never shows what the store below would not.
func TestCacheAgainstStore(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	inner := raft.NewInmemStore()
	c := NewCache(inner, 2000)
	term := uint64(1)
	for range 20_000 {
		first, _ := inner.FirstIndex()
		last, _ := inner.LastIndex()
		switch n := rng.IntN(10); {
		case n < 6 || last == 0:
			var logs []*raft.Log
			for i := range uint64(1 + rng.IntN(4)) {
				logs = append(logs, &raft.Log{Index: last + 1 + i, Term: term, Data: make([]byte, rng.IntN(300))})
			}
			c.StoreLogs(logs)
		case n == 6:
			c.DeleteRange(first, first+rng.Uint64N(last-first+1))
		case n == 7:
			term++
			c.DeleteRange(first+rng.Uint64N(last-first+1), last)
		default:
			i := first + rng.Uint64N(last-first+2)
			var got, want raft.Log
			gotErr, wantErr := c.GetLog(i, &got), inner.GetLog(i, &want)
			if gotErr != wantErr || got.Term != want.Term || len(got.Data) != len(want.Data) {
				t.Fatalf("entry %d: %v %v, want %v %v", i, got.Term, gotErr, want.Term, wantErr)
			}
		}
	}
}

// Entries that are stored over others are the newest.
func TestCacheOfReplacedTail(t *testing.T) {
	c := NewCache(wrap(t, newFaulty()), 1000)
	c.StoreLogs([]*raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 1}, {Index: 3, Term: 1}})
	c.StoreLog(&raft.Log{Index: 2, Term: 2})
	var l raft.Log
	if err := c.GetLog(2, &l); err != nil || l.Term != 2 {
		t.Errorf("entry 2 has term %d, %v", l.Term, err)
	}
	if err := c.GetLog(3, &l); err != raft.ErrLogNotFound {
		t.Errorf("entry 3 is still there: term %d, %v", l.Term, err)
	}
}
