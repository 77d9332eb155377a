package cluster

import (
	"cmp"
	"slices"
	"time"
)

// latencies are the durations of one measurement.
type latencies []time.Duration

func (l *latencies) add(d time.Duration) { *l = append(*l, d) }

// quantile of the durations, 0 if there are none. It sorts them.
func (l latencies) quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	slices.Sort(l)
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

// median of a list; the zero value if it is empty.
func median[T cmp.Ordered](list []T) T {
	if len(list) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
