package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkCut is what it takes to store one entry in a log that a snapshot has just
// cut by 300 MB, a small one or one of 512 KiB: time, and on Linux bytes written, which
// no load disturbs. And the time to open such a log.
func BenchmarkCut(b *testing.B) {
	for _, size := range []int{300, 512 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkCut(b, size) })
	}
}

func benchmarkCut(b *testing.B, size int) {
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
	i, before := entries, written()
	for b.Loop() {
		i++
		store(i, size)
	}
	b.ReportMetric(float64(written()-before)/float64(i-entries), "written-B/op")
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

// written is how many bytes this process has given to writes so far; 0 where the system
// does not tell.
func written() (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	var read int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &n); err != nil {
		return 0
	}
	return n
}
