package tip

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"chorale/message"
)

// TestMemory fills a ring with the smallest messages over few and many partitions,
// and holds what the indexes take: 8 bytes an entry and at most one partly filled
// block a partition. Then the load moves on, twice: after the first time everything
// is served by blocks that came back.
func TestMemory(t *testing.T) {
	bytes := int64(32 << 20)
	if testing.Short() || raceEnabled {
		bytes = 2 << 20
	}
	smallest := message.NewRecord(message.Draft{}, 0, 1, 0, 1)
	for _, partitions := range []uint32{1, 1000, 100_000} {
		tip, rnd, seq := New(bytes), rand.New(rand.NewPCG(1, 2)), uint64(0)
		// round appends once around the ring, to partitions from first on.
		round := func(first uint32) Stats {
			for range int(bytes) / message.Stride(len(smallest)) {
				seq++
				smallest.Stamp(first, seq, 0, 1)
				if tip.Append(first+rnd.Uint32N(partitions), smallest); seq%100 == 0 {
					tip.Publish()
				}
			}
			tip.Publish()
			return tip.Stats()
		}
		round(0)
		s := round(0)
		messages := int64(s.Head + 1 - s.Floor)
		index, limit := int64(s.Blocks)*8*blockEntries, 8*messages+8*blockEntries*int64(s.Partitions)
		t.Logf("%d partitions: %d messages, %d blocks are %.1f bytes a message; 8 and a block a partition would be %.1f",
			partitions, messages, s.Blocks, float64(index)/float64(messages), float64(limit)/float64(messages))
		if index > limit+8*blockEntries {
			t.Errorf("%d partitions: %d bytes of blocks, at most %d are allowed", partitions, index, limit)
		}
		round(1_000_000)
		moved := round(1_000_000)
		round(2_000_000)
		if again := round(2_000_000); again.HighWater > moved.HighWater+moved.HighWater/50+1 {
			t.Errorf("%d partitions: %d blocks after the second move, %d after the first", partitions, again.HighWater, moved.HighWater)
		}
	}
}

// TestMemoryComesBack: the memory of a large ring goes with the tip.
func TestMemoryComesBack(t *testing.T) {
	const ring = 1 << 30
	tip := New(ring)
	if tip.now().ring.arena == nil {
		t.Skip("this system gives no such memory")
	}
	// In its middle: nobody else gets just that place from the system for something small.
	middle := uintptr(unsafe.Pointer(unsafe.SliceData(tip.now().ring.arena))) + ring/2
	r := message.NewRecord(message.Draft{Payload: make([]byte, 1<<20)}, 0, 1, 0, 1)
	tip.Append(0, r)
	tip.Publish()
	if !mapped(t, middle) {
		t.Fatal("the ring is not mapped")
	}
	runtime.KeepAlive(tip)
	tip = nil
	for tries := 0; mapped(t, middle); tries++ {
		if tries == 1000 {
			t.Fatal("the memory of a ring that nobody has any more is held")
		}
		runtime.GC() // cleanups run beside this
		<-time.After(10 * time.Millisecond)
	}
}

// mapped reports whether the process has memory at an address.
func mapped(t *testing.T, at uintptr) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("this system does not say what is mapped: %v", err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil && from <= at && at < to {
			return true
		}
	}
	return false
}

// TestSteady: once the ring has gone round, appending allocates nothing, also while
// readers read.
func TestSteady(t *testing.T) {
	tip := New(1 << 20)
	r := message.NewRecord(message.Draft{Payload: make([]byte, 100)}, 0, 1, 0, 1)
	seq, rnd := uint64(0), rand.New(rand.NewPCG(1, 2))
	add := func() {
		for range 10_000 {
			seq++
			r.Stamp(0, seq, seq-1, 1)
			if tip.Append(rnd.Uint32N(300), r); seq%10 == 0 {
				tip.Publish()
			}
		}
	}
	for range 10 {
		add()
	}
	if n := testing.AllocsPerRun(20, add); n > 0 {
		t.Errorf("10,000 appends allocate %g times", n)
	}
}
