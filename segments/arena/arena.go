// Package arena keeps a contiguous part of the stream in memory, and writes it as
// a segment file.
//
// The records lie one behind the other in chunks that never move. One goroutine
// appends; any number read up to a seq that was published to them after it was
// appended, by whatever means (an atomic counter of the log). A reader never looks
// behind that seq: there the writer may be writing.
package arena

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"sync/atomic"

	"chorale/message"
)

// Arena holds the messages from First on without a gap.
type Arena struct {
	first  uint64
	chunks atomic.Pointer[[]chunk]
	// The rest is the appending goroutine's until nothing is appended any more.
	count      uint64
	bytes      int64 // of padded records
	chunkBytes int
	used       int      // of the last chunk
	partitions []uint32 // of each record, for the layout of the file
	firstTime  int64
	lastTime   int64
}

// chunk is a piece of memory. A record that does not fit its rest starts the next
// one. Lists of chunks are immutable.
type chunk struct {
	first uint64 // seq of its first record
	bytes []byte // the space
	used  int    // bytes of records; set when the next chunk is started
}

const (
	maxChunkBytes = 1 << 20
	minChunkBytes = 4 << 10
)

// New makes an empty arena for the messages from seq first on, about target bytes
// of them.
func New(first uint64, target int64) *Arena {
	size := maxChunkBytes
	if target/16 < maxChunkBytes {
		size = max(minChunkBytes, 1<<bits.Len64(uint64(max(target, 1))/16))
	}
	a := &Arena{first: first, chunkBytes: min(size, maxChunkBytes)}
	a.chunks.Store(new([]chunk))
	return a
}

// Append copies the record, whose seq is the next one.
func (a *Arena) Append(partition uint32, r message.Record) {
	if want := a.first + a.count; r.Seq() != want {
		panic(fmt.Sprintf("arena: seq %d is appended, want %d", r.Seq(), want))
	}
	n := message.Stride(len(r))
	chunks := *a.chunks.Load()
	if len(chunks) == 0 || a.used+n > len(chunks[len(chunks)-1].bytes) {
		chunks = a.grow(chunk{first: r.Seq(), bytes: make([]byte, max(n, a.chunkBytes))})
	}
	copy(chunks[len(chunks)-1].bytes[a.used:], r)
	a.used += n
	a.bytes += int64(n)
	if a.count == 0 {
		a.firstTime = r.Time()
	}
	a.lastTime = r.Time()
	a.count++
	a.partitions = append(a.partitions, partition)
}

// grow publishes a list of chunks with one more.
func (a *Arena) grow(c chunk) []chunk {
	chunks := slices.Concat(*a.chunks.Load(), []chunk{c})
	if n := len(chunks); n > 1 {
		chunks[n-2].used = a.used
	}
	a.used = 0
	a.chunks.Store(&chunks)
	return chunks
}

// First is the seq of the first message.
func (a *Arena) First() uint64 { return a.first }

// Last is the seq of the last message, First-1 without one; for the appending
// goroutine, or once nothing is appended any more.
func (a *Arena) Last() uint64 { return a.first + a.count - 1 }

// Bytes is the size of the padded records; for whom Last is.
func (a *Arena) Bytes() int64 { return a.bytes }

// MemoryBytes is the size of the chunks. Any goroutine.
func (a *Arena) MemoryBytes() (n int64) {
	for _, c := range *a.chunks.Load() {
		n += int64(len(c.bytes))
	}
	return n
}

// Place is a position in the arena. The zero Place is that of the first message.
type Place struct{ chunk, off uint32 }

// At returns the padded record at p, which must be published, and the place behind it.
func (a *Arena) At(p Place) (padded []byte, next Place) {
	chunks := *a.chunks.Load()
	if int(p.chunk)+1 < len(chunks) && int(p.off) == chunks[p.chunk].used {
		p = Place{chunk: p.chunk + 1}
	}
	b := chunks[p.chunk].bytes[p.off:]
	n := message.Stride(message.Record(b).Size())
	return b[:n:n], Place{p.chunk, p.off + uint32(n)}
}

// Seek finds the place of the record with this seq, which must be published.
func (a *Arena) Seek(seq uint64) Place {
	chunks := *a.chunks.Load()
	i := sort.Search(len(chunks), func(i int) bool { return chunks[i].first > seq }) - 1
	p := Place{chunk: uint32(i)}
	for at := chunks[i].first; at < seq; at++ {
		_, p = a.At(p)
	}
	return p
}

// SeekTime returns the last seq before the first message of time t or later among
// the records up to last, which are published and not before First.
func (a *Arena) SeekTime(t int64, last uint64) uint64 {
	chunks := *a.chunks.Load()
	n := sort.Search(len(chunks), func(i int) bool {
		return chunks[i].first > last || message.Record(chunks[i].bytes).Time() >= t
	})
	if n == 0 {
		return a.first - 1
	}
	seq := chunks[n-1].first
	for p := (Place{chunk: uint32(n - 1)}); seq <= last; seq++ {
		var b []byte
		if b, p = a.At(p); message.Record(b).Time() >= t {
			break
		}
	}
	return seq - 1
}

// Records lists the padded records chunk by chunk; for whom Last is. The bytes are
// immutable.
func (a *Arena) Records() [][]byte {
	chunks := *a.chunks.Load()
	out := make([][]byte, 0, len(chunks))
	for i, c := range chunks {
		end := c.used
		if i == len(chunks)-1 {
			end = a.used
		}
		out = append(out, c.bytes[:end:end])
	}
	return out
}
