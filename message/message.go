// Package message owns the one encoding of a message.
//
// A message is a record: a fixed head of 40 bytes and a body. The publisher
// builds the body once; from then on its bytes are copied, never re-encoded:
// the publisher's batch, the Raft entry, the tip, a segment, a store and a
// delivered frame all hold the same record. Only the head is stamped, once, by
// the state machine, when the message gets its place in the stream.
//
//	offset size
//	0      4    size      bytes of head and body, without the padding
//	4      4    topic     id of the topic (in a batch: index into its table)
//	8      8    seq       place in the stream, from 1 (in a batch: producer number)
//	16     8    prev      seq of the previous message of the topic, 0 for none
//	                      (in a batch: 0, or expected last seq of the topic + 1)
//	24     8    time      nanoseconds since 1970 UTC (in a batch: messages left in
//	                      the atomic unit, this one included: n, n-1, .. 1)
//	32     4    body sum  CRC-32C of the body
//	36     4    head sum  CRC-32C of bytes 0..36 (in a batch: zero)
//	40          body      uvarint length of headers, headers, payload
//	            padding   zeros up to a multiple of 8
//
// All integers are little-endian. Headers are an ordered list of key and value,
// each a uvarint length and that many bytes; a key has 1 to 255 bytes.
//
// Concatenated records need no other framing: each says its size, and Stride is
// the distance to the next. Because padding is part of the encoding, a run of
// records can be moved from the tip to a send buffer by one copy.
package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	// HeadBytes is the size of a record's fixed head.
	HeadBytes = 40
	// Align is the alignment of records: every stride is a multiple of it.
	Align = 8
	// MaxHeaderBytes bounds the encoded headers of one message.
	MaxHeaderBytes = 64 << 10
	// MaxHeaderKeyBytes bounds one header key.
	MaxHeaderKeyBytes = 255
	// MaxPayloadBytes is the hard limit of a payload; DefaultPayloadLimit is what
	// a node allows unless it is configured otherwise.
	MaxPayloadBytes     = 16 << 20
	DefaultPayloadLimit = 1 << 20
	// MaxRecordBytes bounds one record, padding included.
	MaxRecordBytes = HeadBytes + binary.MaxVarintLen32 + MaxHeaderBytes + MaxPayloadBytes + Align
)

// ErrCorrupt marks every finding of bytes that are not what their writer wrote.
var ErrCorrupt = errors.New("corrupt message")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the checksum of records and batches: CRC-32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// SumMore is the Sum of what sum is of, and b behind it; that of nothing is 0.
func SumMore(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// Record is one encoded message without its padding: head and body. Its methods
// read the head without checking it; Check or Split must have accepted the bytes.
// A Record is a view: whoever made it says how long its bytes stay valid.
type Record []byte

// Size is the encoded length in bytes, without padding; it equals len(r).
func (r Record) Size() int { return int(binary.LittleEndian.Uint32(r)) }

// Topic is the topic's id.
func (r Record) Topic() uint32 { return binary.LittleEndian.Uint32(r[4:]) }

// Seq is the message's place in the stream.
func (r Record) Seq() uint64 { return binary.LittleEndian.Uint64(r[8:]) }

// Prev is the seq of the previous message of the same topic; 0 means none.
func (r Record) Prev() uint64 { return binary.LittleEndian.Uint64(r[16:]) }

// Time is the stream time in nanoseconds since 1970 UTC.
func (r Record) Time() int64 { return int64(binary.LittleEndian.Uint64(r[24:])) }

// Body is headers and payload as the publisher encoded them.
func (r Record) Body() []byte { return r[HeadBytes:] }

// Payload is the message's payload. It is empty, never nil, for an empty one.
func (r Record) Payload() []byte {
	n, w := binary.Uvarint(r[HeadBytes:])
	return r[HeadBytes+w+int(n):]
}

// Headers is the encoded list of headers; EachHeader walks it.
func (r Record) Headers() []byte {
	n, w := binary.Uvarint(r[HeadBytes:])
	return r[HeadBytes+w : HeadBytes+w+int(n)]
}

// EachHeader calls f with every header in order until f returns false.
func (r Record) EachHeader(f func(key string, value []byte) bool) {
	b := r.Headers()
	for len(b) > 0 {
		k, rest, _ := lengthPrefixed(b)
		v, tail, _ := lengthPrefixed(rest)
		if !f(string(k), v) {
			return
		}
		b = tail
	}
}

// Stride is the distance in bytes from the start of a record of the given size
// to the start of the next one.
func Stride(size int) int { return (size + Align - 1) &^ (Align - 1) }

// Stamp writes the head that the state machine decides: topic id, seq, prev and
// time, and the head's checksum. The caller owns the bytes.
func (r Record) Stamp(topic uint32, seq, prev uint64, time int64) {
	binary.LittleEndian.PutUint32(r[4:], topic)
	binary.LittleEndian.PutUint64(r[8:], seq)
	binary.LittleEndian.PutUint64(r[16:], prev)
	binary.LittleEndian.PutUint64(r[24:], uint64(time))
	binary.LittleEndian.PutUint32(r[36:], Sum(r[:36]))
}

// Check verifies both checksums and the structure of the body.
func (r Record) Check() error {
	if len(r) < HeadBytes || r.Size() != len(r) {
		return fmt.Errorf("%w: record of %d bytes says otherwise or is shorter than its head", ErrCorrupt, len(r))
	}
	if got, want := Sum(r[:36]), binary.LittleEndian.Uint32(r[36:]); got != want {
		return fmt.Errorf("%w: seq %d: head checksum %08x, want %08x", ErrCorrupt, r.Seq(), got, want)
	}
	if got, want := Sum(r.Body()), binary.LittleEndian.Uint32(r[32:]); got != want {
		return fmt.Errorf("%w: seq %d: body checksum %08x, want %08x", ErrCorrupt, r.Seq(), got, want)
	}
	return checkBody(r.Body())
}

// Split takes the first record off concatenated records. It checks lengths only,
// so that walking is cheap where a checksum of the whole was verified already.
// An empty b is the caller's end of the walk and an error here.
func Split(b []byte) (r Record, rest []byte, err error) {
	if len(b) < HeadBytes {
		return nil, nil, fmt.Errorf("%w: %d bytes left, a record's head has %d", ErrCorrupt, len(b), HeadBytes)
	}
	size := int(binary.LittleEndian.Uint32(b))
	if size <= HeadBytes || size > MaxRecordBytes || Stride(size) > len(b) {
		return nil, nil, fmt.Errorf("%w: record says %d bytes, %d are left", ErrCorrupt, size, len(b))
	}
	return Record(b[:size:size]), b[Stride(size):], nil
}

// Header is one key and value of a message.
type Header struct {
	Key   string
	Value []byte
}

// Draft is a message that is not yet part of the stream.
type Draft struct {
	Headers []Header
	Payload []byte
}

// Validate reports what a draft breaks of the limits; maxPayload in bytes.
func (d Draft) Validate(maxPayload int) error {
	if len(d.Payload) > maxPayload {
		return fmt.Errorf("payload of %s: at most %s are allowed", Size(len(d.Payload)), Size(maxPayload))
	}
	for _, h := range d.Headers {
		if len(h.Key) == 0 || len(h.Key) > MaxHeaderKeyBytes {
			return fmt.Errorf("header key of %d bytes: 1 to %d are allowed", len(h.Key), MaxHeaderKeyBytes)
		}
	}
	if n := headerBytes(d.Headers); n > MaxHeaderBytes {
		return fmt.Errorf("headers of %s: at most %s are allowed", Size(n), Size(MaxHeaderBytes))
	}
	return nil
}

// Size is an amount of bytes as an error tells it: to be read, and exact.
type Size int64

// String is "5 bytes", "1 MiB (1048576 bytes)".
func (s Size) String() string {
	exact := strconv.FormatInt(int64(s), 10) + " bytes"
	unit, name := int64(0), ""
	for i, n := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if u := int64(1) << (10 * (i + 1)); int64(s) >= u {
			unit, name = u, n
		}
	}
	if unit == 0 {
		return exact
	}
	round := strconv.FormatFloat(float64(s)/float64(unit), 'f', 1, 64)
	return strings.TrimSuffix(round, ".0") + " " + name + " (" + exact + ")"
}

// EncodedBytes is the stride of the draft's record.
func (d Draft) EncodedBytes() int {
	n := headerBytes(d.Headers)
	return Stride(HeadBytes + uvarintLen(uint64(n)) + n + len(d.Payload))
}

// appendRecord appends the draft as a padded record with an unstamped head.
func appendRecord(dst []byte, d Draft) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeadBytes)...)
	dst = binary.AppendUvarint(dst, uint64(headerBytes(d.Headers)))
	for _, h := range d.Headers {
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = binary.AppendUvarint(dst, uint64(len(h.Value)))
		dst = append(dst, h.Value...)
	}
	dst = append(dst, d.Payload...)
	r := Record(dst[start:])
	binary.LittleEndian.PutUint32(r, uint32(len(r)))
	binary.LittleEndian.PutUint32(r[32:], Sum(r.Body()))
	return pad(dst, len(r))
}

// pad appends the padding of a record of the given size.
func pad(dst []byte, size int) []byte {
	var zero [Align]byte
	return append(dst, zero[:Stride(size)-size]...)
}

// NewRecord encodes and stamps a message in one step. The stream's own path
// never needs it (there the state machine stamps a publisher's record); tools
// and tests that make streams do.
func NewRecord(d Draft, topic uint32, seq, prev uint64, time int64) Record {
	padded := appendRecord(nil, d)
	r := Record(padded)[:Record(padded).Size()]
	r.Stamp(topic, seq, prev, time)
	return r
}

// AppendPadded appends a record and its padding, so that what follows is aligned
// if dst was.
func AppendPadded(dst []byte, r Record) []byte { return pad(append(dst, r...), len(r)) }

func headerBytes(hs []Header) int {
	n := 0
	for _, h := range hs {
		n += uvarintLen(uint64(len(h.Key))) + len(h.Key) + uvarintLen(uint64(len(h.Value))) + len(h.Value)
	}
	return n
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// checkBody verifies that the headers lie within the body and parse to its end.
func checkBody(b []byte) error {
	headers, _, ok := lengthPrefixed(b)
	if !ok || len(headers) > MaxHeaderBytes {
		return fmt.Errorf("%w: headers overrun the body of %d bytes", ErrCorrupt, len(b))
	}
	for len(headers) > 0 {
		key, rest, ok := lengthPrefixed(headers)
		if !ok || len(key) == 0 || len(key) > MaxHeaderKeyBytes {
			return fmt.Errorf("%w: bad header key", ErrCorrupt)
		}
		if _, headers, ok = lengthPrefixed(rest); !ok {
			return fmt.Errorf("%w: header %q overruns", ErrCorrupt, key)
		}
	}
	return nil
}

// lengthPrefixed splits off a uvarint length and that many bytes. Only the
// shortest form of the length is accepted: one message has one encoding. (Uvarint
// answers w <= 0 to what is no number.)
func lengthPrefixed(b []byte) (field, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w != uvarintLen(n) || n > uint64(len(b)-w) {
		return nil, nil, false
	}
	return b[w : w+int(n)], b[w+int(n):], true
}
