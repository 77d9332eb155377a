package tip

import (
	"fmt"
	"golang.org/x/sys/unix"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"chorale/message"
	"chorale/topic"
)

func cpu() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return ts.Nano()
}

func env(name string, def int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return def
}

func TestProto(t *testing.T) {
	runtime.LockOSThread()
	size, parts := env("SIZE", 128), env("PARTS", 1000)
	ring := int64(env("RING", 256)) << 20
	tip := New(ring)
	table := topic.NewTable()
	ids := make([]uint32, parts)
	for i := range ids {
		ids[i], _ = table.Intern(fmt.Appendf(nil, "g/p%d/t", i))
	}
	rec := message.NewRecord(message.Draft{Payload: make([]byte, size)}, 0, 1, 0, 1)
	rnd := rand.New(rand.NewPCG(1, 2))
	n := int(ring) / message.Stride(len(rec)) * 12 / 10
	t0 := cpu()
	for i := range n {
		id := ids[rnd.IntN(parts)]
		rec.Stamp(id, uint64(i+1), 0, 1)
		tip.Append(table.Partition(id), rec)
		if i%1000 == 0 {
			tip.Publish()
		}
	}
	tip.Publish()
	t.Logf("append %.1f ns (with stamp) %+v", float64(cpu()-t0)/float64(n), tip.Stats())
	dst := make([]byte, 0, 256<<10)
	trash := make([]byte, 64<<20)
	flush := func() {
		for i := 0; i < len(trash); i += 64 {
			trash[i]++
		}
	}
	run := func(filters []string, plan Plan) (float64, int) {
		f, err := topic.ParseFilters(filters...)
		if err != nil {
			t.Fatal(err)
		}
		var times []float64
		count := 0
		for range env("REP", 5) {
			if env("FLUSH", 1) == 1 {
				flush()
			}
			t0 := cpu()
			sel := topic.NewSelection(table, f)
			r := tip.NewReader(sel, tip.Floor()-1)
			r.Force(plan)
			count = 0
			for {
				_, p, err := r.Read(dst[:0], 256<<10)
				if err != nil {
					t.Fatal(err)
				}
				count += p.Count
				if p.Count == 0 {
					break
				}
			}
			times = append(times, float64(cpu()-t0))
		}
		slices.Sort(times)
		return times[len(times)/2], count
	}
	for _, permille := range []int{env("PM", 100)} {
		var filters []string
		for i := 0; i < parts*permille/1000; i++ {
			filters = append(filters, fmt.Sprintf("g/p%d/**", i*1000/permille))
		}
		lin, c := run(filters, Linear)
		for _, w := range []int{env("W", 32)} {
			WindowBytes = w << 20
			idx, c2 := run(filters, Index)
			if c != c2 {
				t.Fatal(c, c2)
			}
			t.Logf("%d‰ w=%d n=%d linear %.2f ms (%.1f ns/scanned) index %.1f us (%.1f ns/msg) ratio %.2f", permille, w, c, lin/1e6, lin/float64(tip.Head()-tip.Floor()), idx/1e3, idx/float64(c), lin/idx)
		}
	}
}
