package segments

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"chorale/disk"
)

// TestBuildSleepsUntilThereIsWork: a cut wakes it, and so does an edit that removes
// a file; nothing else has to come by.
func TestBuildSleepsUntilThereIsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := disk.NewMem(1)
		s := newStream(t, m.Mount())
		s.log.SetTarget(1)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- s.log.Build(ctx) }()
		var files []FileMeta
		for n := range 2 {
			synctest.Wait() // Build sleeps
			s.entry(2, func() (string, int) { return "a", 5 })
			check(t, s.log.CutIfFull())
			synctest.Wait()
			list := s.log.Proposals()
			if len(list) != 1 {
				t.Fatalf("cut %d: %d files are built", n, len(list))
			}
			refused, mismatch := s.log.Install(Edit{Add: list})
			check(t, errors.Join(refused, mismatch))
			files = append(files, list[0])
		}
		synctest.Wait()
		refused, mismatch := s.log.Install(Edit{Remove: []Hash{files[0].Hash}})
		check(t, errors.Join(refused, mismatch))
		synctest.Wait()
		if _, err := m.ReadFile("data/" + files[0].Name()); err == nil {
			t.Fatal("the removed file is still there")
		}
		stop()
		check(t, <-done)
	})
}
