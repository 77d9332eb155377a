// Package fields takes fields off bytes that have come from elsewhere: little-endian numbers,
// and texts behind their length. Formats of other rooms are read with it.
package fields

import "encoding/binary"

// Reader takes fields off Rest, and is Short once that was: what it returns from then on is
// zeros, and nothing is left. So a decoder asks once, in the end.
type Reader struct {
	Rest  []byte
	Short bool
}

// Take returns the next n bytes; zeros, if there are not so many.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Rest) {
		r.Rest, r.Short = nil, true
		return make([]byte, n)
	}
	field := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return field
}

// Byte takes 1 byte.
func (r *Reader) Byte() byte { return r.Take(1)[0] }

// Uint32 takes 4 bytes.
func (r *Reader) Uint32() uint32 { return binary.LittleEndian.Uint32(r.Take(4)) }

// Uint64 takes 8 bytes.
func (r *Reader) Uint64() uint64 { return binary.LittleEndian.Uint64(r.Take(8)) }

// Text takes a length of 2 bytes, and so many bytes.
func (r *Reader) Text() string { return string(r.Take(int(binary.LittleEndian.Uint16(r.Take(2))))) }

// Done reports whether there was enough, and nothing is left.
func (r *Reader) Done() bool { return !r.Short && len(r.Rest) == 0 }
