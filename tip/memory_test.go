package tip

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

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
	const ring = 384 << 20
	begun := largeMappings(t, ring)
	r := message.NewRecord(message.Draft{Payload: make([]byte, 1<<20)}, 0, 1, 0, 1)
	for range 4 {
		tip := New(ring)
		for seq := uint64(1); seq <= 3; seq++ {
			r.Stamp(0, seq, seq-1, 1)
			tip.Append(0, r)
		}
		tip.Publish()
		if n := largeMappings(t, ring); n <= begun {
			t.Fatalf("%d large mappings with a ring, %d before", n, begun)
		}
		runtime.KeepAlive(tip)
	}
	for tries := 0; largeMappings(t, ring) > begun; tries++ {
		if tries == 1000 {
			t.Fatal("the memory of rings that nobody has any more is held")
		}
		runtime.GC() // cleanups run beside this
		<-time.After(10 * time.Millisecond)
	}
}

// largeMappings counts the mappings of the process that have so many bytes and more.
func largeMappings(t *testing.T, bytes uint64) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skipf("this system does not say what is mapped: %v", err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil && to-from >= bytes && strings.Contains(line, " rw-p ") {
			n++
		}
	}
	return n
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
