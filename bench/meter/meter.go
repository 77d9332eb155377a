// Package meter measures what a piece of work costs: processor time of its thread,
// wall time, allocations.
package meter

import (
	"runtime"
	"slices"
	"time"
)

// Cost is what some work took.
type Cost struct {
	CPU, Wall time.Duration
	// Allocs and Bytes count the allocations of the whole process.
	Allocs, Bytes uint64
}

// Of runs work and returns what it took. On systems where the time of a thread
// cannot be read, CPU is the wall time.
func Of(work func()) Cost {
	var c Cost
	c.Allocs, c.Bytes = Allocations(func() {
		wall := time.Now()
		c.CPU = Thread(work)
		c.Wall = time.Since(wall)
	})
	return c
}

// Thread runs work on a locked thread and returns the processor time of it.
func Thread(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := threadTime()
	work()
	return threadTime() - cpu
}

// Process runs work and returns the processor time of the whole process meanwhile, the
// runtime's own included: for work of many goroutines, which would lose by threads of
// their own what they win by being cheap to wait. On systems where that time cannot be
// read it is the wall time.
func Process(work func()) time.Duration {
	cpu := processTime()
	work()
	return processTime() - cpu
}

// Allocations runs work and returns how often, and how many bytes, the process
// allocated meanwhile.
func Allocations(work func()) (count, bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// Median returns the median of each figure by itself. It panics without any cost.
func Median(costs []Cost) Cost {
	return Cost{
		CPU:    middle(costs, func(c Cost) time.Duration { return c.CPU }),
		Wall:   middle(costs, func(c Cost) time.Duration { return c.Wall }),
		Allocs: middle(costs, func(c Cost) uint64 { return c.Allocs }),
		Bytes:  middle(costs, func(c Cost) uint64 { return c.Bytes }),
	}
}

func middle[T time.Duration | uint64](costs []Cost, of func(Cost) T) T {
	list := make([]T, len(costs))
	for i, c := range costs {
		list[i] = of(c)
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// Per is a duration divided by a count, in nanoseconds; 0 if the count is 0.
func Per(d time.Duration, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(d) / float64(n)
}
