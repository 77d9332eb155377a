package api

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// Buffers is the pool of the buffers that frames are made of: take one with Get,
// fill it, wrap it with mem.NewBuffer(b, Buffers). What Get returns holds what its
// last user left in it. A slice that append has moved to other memory may be put
// back all the same. Safe for concurrent use.
var Buffers mem.BufferPool = new(bufferPool)

const (
	// Buffers below a page are not worth a pool; above the largest message none
	// are asked for.
	bufferBitsMin = 12
	bufferBitsMax = 25
	// Frames are asked for in powers of two and come with some fields around
	// them: without the slack such a frame would take a buffer of twice its size.
	bufferSlackBytes = 4 << 10
)

// bufferPool keeps buffers by capacity: those of classes[i] hold at least
// classBytes(i), and less than classBytes(i+1).
type bufferPool struct {
	classes [bufferBitsMax - bufferBitsMin + 1]sync.Pool
}

func classBytes(class int) int { return 1<<(bufferBitsMin+class) + bufferSlackBytes }

// Get returns a buffer of that many bytes, its contents undefined.
func (p *bufferPool) Get(bytes int) *[]byte {
	class := max(bits.Len(uint(max(bytes-bufferSlackBytes, 1)-1)), bufferBitsMin) - bufferBitsMin
	if class >= len(p.classes) {
		b := make([]byte, bytes)
		return &b
	}
	if b, ok := p.classes[class].Get().(*[]byte); ok {
		*b = (*b)[:bytes]
		return b
	}
	b := make([]byte, bytes, classBytes(class))
	return &b
}

// Put takes a buffer back.
func (p *bufferPool) Put(b *[]byte) {
	class := bits.Len(uint(max(cap(*b)-bufferSlackBytes, 0))) - 1 - bufferBitsMin
	if class >= 0 && class < len(p.classes) {
		p.classes[class].Put(b)
	}
}
