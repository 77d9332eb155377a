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
	Allocs    uint64 // allocations of the whole process
}

// Of runs work on a locked thread. On systems where the time of a thread cannot be
// read, CPU is the wall time.
func Of(work func()) Cost {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, wall := threadTime(), time.Now()
	work()
	c := Cost{CPU: threadTime() - cpu, Wall: time.Since(wall)}
	runtime.ReadMemStats(&after)
	c.Allocs = after.Mallocs - before.Mallocs
	return c
}

// Median returns the median of each figure by itself. It panics without any cost.
func Median(costs []Cost) Cost {
	return Cost{
		CPU:    middle(costs, func(c Cost) time.Duration { return c.CPU }),
		Wall:   middle(costs, func(c Cost) time.Duration { return c.Wall }),
		Allocs: middle(costs, func(c Cost) uint64 { return c.Allocs }),
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
