package fixed

import (
	"runtime"
	"sync"
	"testing/synctest"
	"time"
)

// collectAbove is the heap above which the garbage is collected, or twice what was left
// of it the last time, if that is more.
const collectAbove = 48 << 20

// Collect collects garbage until its result is called. It runs without the
// collector's own choice of moments, because that would move goroutines; so it
// happens when all others are blocked.
func Collect() (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		above := uint64(collectAbove)
		for {
			select {
			case <-done:
				return
			case <-time.After(500 * time.Millisecond):
			}
			synctest.Wait()
			var m runtime.MemStats
			if runtime.ReadMemStats(&m); m.HeapAlloc <= above {
				continue
			}
			runtime.GC()
			runtime.ReadMemStats(&m)
			above = max(collectAbove, 2*m.HeapAlloc)
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
