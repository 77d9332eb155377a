package segments

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"sync/atomic"

	"chorale/message"
)

// stretch is a part of the stream in memory: the records lie one behind the other
// in chunks that never move. One goroutine appends; any number read what the log
// has published. A reader never looks behind the published seq: there the writer
// may be writing.
type stretch struct {
	first  uint64
	chunks atomic.Pointer[[]chunk]
	// The rest is the appending goroutine's until the stretch is closed.
	count      uint64
	bytes      int64 // of padded records
	chunkBytes int
	used       int      // of the last chunk
	partitions []uint32 // of each record, for the build
	firstTime  int64
	lastTime   int64
	closed     bool
	// built is the file of a closed stretch once it is durable here. Guarded by
	// Log.mu.
	built *file
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

// newStretch makes an empty stretch whose chunks fit the size at which it is cut.
func newStretch(first uint64, target int64) *stretch {
	size := maxChunkBytes
	if target/16 < maxChunkBytes {
		size = max(minChunkBytes, 1<<bits.Len64(uint64(max(target, 1))/16))
	}
	s := &stretch{first: first, chunkBytes: min(size, maxChunkBytes)}
	s.chunks.Store(new([]chunk))
	return s
}

// append copies the record.
func (s *stretch) append(partition uint32, r message.Record) {
	if want := s.first + s.count; r.Seq() != want {
		panic(fmt.Sprintf("segments: seq %d is appended, want %d", r.Seq(), want))
	}
	n := message.Stride(len(r))
	chunks := *s.chunks.Load()
	if len(chunks) == 0 || s.used+n > len(chunks[len(chunks)-1].bytes) {
		chunks = s.grow(chunk{first: r.Seq(), bytes: make([]byte, max(n, s.chunkBytes))})
	}
	copy(chunks[len(chunks)-1].bytes[s.used:], r)
	s.used += n
	s.bytes += int64(n)
	if s.count == 0 {
		s.firstTime = r.Time()
	}
	s.lastTime = r.Time()
	s.count++
	s.partitions = append(s.partitions, partition)
}

// grow publishes a list of chunks with one more.
func (s *stretch) grow(c chunk) []chunk {
	chunks := slices.Concat(*s.chunks.Load(), []chunk{c})
	if n := len(chunks); n > 1 {
		chunks[n-2].used = s.used
	}
	s.used = 0
	s.chunks.Store(&chunks)
	return chunks
}

// last is the seq of the last record; for the appending goroutine, or once closed.
func (s *stretch) last() uint64 { return s.first + s.count - 1 }

// place is a position in the chunks.
type place struct{ chunk, off uint32 }

// at returns the record at p, which must be published, and the place behind it.
func (s *stretch) at(p place) (padded []byte, next place) {
	chunks := *s.chunks.Load()
	if int(p.chunk)+1 < len(chunks) && int(p.off) == chunks[p.chunk].used {
		p = place{chunk: p.chunk + 1}
	}
	b := chunks[p.chunk].bytes[p.off:]
	n := message.Stride(message.Record(b).Size())
	return b[:n:n], place{p.chunk, p.off + uint32(n)}
}

// seek finds the place of the record with this seq, which must be published.
func (s *stretch) seek(seq uint64) place {
	chunks := *s.chunks.Load()
	i := sort.Search(len(chunks), func(i int) bool { return chunks[i].first > seq }) - 1
	p := place{chunk: uint32(i)}
	for at := chunks[i].first; at < seq; at++ {
		_, p = s.at(p)
	}
	return p
}

// seekTime returns the last seq before the first message of time t or later among
// the records up to last, which are published and not before s.first.
func (s *stretch) seekTime(t int64, last uint64) uint64 {
	chunks := *s.chunks.Load()
	n := sort.Search(len(chunks), func(i int) bool {
		return chunks[i].first > last || message.Record(chunks[i].bytes).Time() >= t
	})
	if n == 0 {
		return s.first - 1
	}
	seq := chunks[n-1].first
	for p := (place{chunk: uint32(n - 1)}); seq <= last; seq++ {
		var b []byte
		if b, p = s.at(p); message.Record(b).Time() >= t {
			break
		}
	}
	return seq - 1
}

// records lists the chunks without the unused space behind their records. For the
// appending goroutine, or once closed.
func (s *stretch) records() [][]byte {
	chunks := *s.chunks.Load()
	out := make([][]byte, 0, len(chunks))
	for i, c := range chunks {
		end := c.used
		if i == len(chunks)-1 {
			end = s.used
		}
		out = append(out, c.bytes[:end:end])
	}
	return out
}
