package raftlog

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkCut is the time to store one small entry in a log that a snapshot has
// just cut by 300 MB, and the time to open such a log.
func BenchmarkCut(b *testing.B) {
	path := filepath.Join(b.TempDir(), "raft.db")
	s, err := Open(path, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	const entries = 600
	store := func(index, bytes int) {
		if err := s.StoreLogs([]*raft.Log{{Index: uint64(index), Term: 1, Data: make([]byte, bytes)}}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range entries {
		store(i+1, 512<<10)
	}
	if err := s.DeleteRange(1, entries-10); err != nil {
		b.Fatal(err)
	}
	i := entries
	for b.Loop() {
		i++
		store(i, 300)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if s, err = Open(path, time.Minute); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "open-ms")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
