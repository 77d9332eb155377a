package message

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A batch is what a publisher sends and what a Raft entry carries, unchanged:
//
//	offset size
//	0      4    magic     "CHB1"
//	4      4    sum       CRC-32C of everything behind it
//	8      4    size      bytes of the whole batch
//	12     4    count     records
//	16     16   producer  the producer's id; all zero: not idempotent
//	32     4    topics    entries of the topic table
//	36     4    table     bytes of the topic table with its padding
//	40          table     per topic: uint16 length, name; zeros up to a multiple of 8
//	            records   padded, heads as the package comment says
//
// The messages of one atomic unit stand together and carry the same producer
// number; the numbers of a batch's units rise by one from unit to unit. The table
// holds the topics in the order in which the records name them first, and no
// others: a batch brings no topic into being without a message.
const (
	batchMagic = 0x31424843 // "CHB1"
	// BatchHeadBytes is the size of a batch's fixed head.
	BatchHeadBytes = 40
	// MaxBatchBytes is the hard limit of a batch: one message of the largest
	// size, or many small ones.
	MaxBatchBytes = MaxRecordBytes + (64 << 10)
	// MaxBatchMessages bounds the records of one batch.
	MaxBatchMessages = 1 << 16
)

// ProducerID names one producer for ever; zero means none.
type ProducerID [16]byte

// Batch is a checked, decoded view of an encoded batch. It shares the bytes.
type Batch struct {
	// Producer is zero if the batch is not idempotent.
	Producer ProducerID
	// Topics is the table that the records' Topic field indexes.
	Topics [][]byte
	// Count is the number of records.
	Count int
	// Records are the padded records, one behind the other.
	Records []byte
}

// Number is the producer number of an unstamped record's unit.
func (r Record) Number() uint64 { return r.Seq() }

// Expected is the condition of an unstamped record: the last seq that its topic
// must have, 0 meaning that the topic must not exist; ok is false without one.
func (r Record) Expected() (seq uint64, ok bool) {
	if p := r.Prev(); p > 0 {
		return p - 1, true
	}
	return 0, false
}

// UnitLeft is how many messages of the unit remain from this unstamped record on,
// itself included.
func (r Record) UnitLeft() int { return int(r.Time()) }

// BatchBytes returns the length of the batch that starts at b, and whether b
// holds all of it. It lets a reader of concatenated batches find their borders.
func BatchBytes(b []byte) (n int, ok bool) {
	if len(b) < BatchHeadBytes {
		return 0, false
	}
	n = int(binary.LittleEndian.Uint32(b[8:]))
	return n, n >= BatchHeadBytes && n <= len(b)
}

// ParseBatch checks an encoded batch completely (limits, checksums of the batch and
// of every body, table, sizes, units, numbers) and returns its view. Names may be
// any bytes, also twice the same: their rules belong to package topic. An error
// says what is wrong and wraps ErrCorrupt.
func ParseBatch(b []byte) (Batch, error) { return parseBatch(b, true) }

// ReadBatch is ParseBatch without the bodies' checksums, for a batch that was
// admitted before and whose own checksum vouches for them.
func ReadBatch(b []byte) (Batch, error) { return parseBatch(b, false) }

func parseBatch(b []byte, bodies bool) (Batch, error) {
	if n, ok := BatchBytes(b); !ok || n != len(b) {
		return Batch{}, fmt.Errorf("%w: batch of %d bytes is cut or overlong", ErrCorrupt, len(b))
	}
	if len(b) > MaxBatchBytes {
		return Batch{}, fmt.Errorf("%w: batch of %d bytes: at most %d are allowed", ErrCorrupt, len(b), MaxBatchBytes)
	}
	if m := binary.LittleEndian.Uint32(b); m != batchMagic {
		return Batch{}, fmt.Errorf("%w: batch starts with %08x, want %08x", ErrCorrupt, m, uint32(batchMagic))
	}
	if got, want := Sum(b[8:]), binary.LittleEndian.Uint32(b[4:]); got != want {
		return Batch{}, fmt.Errorf("%w: batch checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	out := Batch{Count: int(binary.LittleEndian.Uint32(b[12:]))}
	copy(out.Producer[:], b[16:32])
	topics, table := int(binary.LittleEndian.Uint32(b[32:])), int(binary.LittleEndian.Uint32(b[36:]))
	if out.Count == 0 || out.Count > MaxBatchMessages {
		return Batch{}, fmt.Errorf("%w: batch of %d messages: 1 to %d are allowed", ErrCorrupt, out.Count, MaxBatchMessages)
	}
	if table > len(b)-BatchHeadBytes || table%Align != 0 || topics > out.Count {
		return Batch{}, fmt.Errorf("%w: table of %d topics, %d bytes, for %d messages in %d bytes", ErrCorrupt, topics, table, out.Count, len(b))
	}
	var err error
	if out.Topics, err = parseTable(b[BatchHeadBytes:BatchHeadBytes+table], topics); err != nil {
		return Batch{}, err
	}
	out.Records = b[BatchHeadBytes+table:]
	return out, out.check(bodies)
}

func parseTable(b []byte, count int) ([][]byte, error) {
	names := make([][]byte, 0, count)
	for range count {
		if len(b) < 2 || int(binary.LittleEndian.Uint16(b)) > len(b)-2 {
			return nil, fmt.Errorf("%w: topic table is cut", ErrCorrupt)
		}
		n := int(binary.LittleEndian.Uint16(b))
		names = append(names, b[2:2+n:2+n])
		b = b[2+n:]
	}
	if len(b) >= Align || !allZero(b) {
		return nil, fmt.Errorf("%w: topic table has %d bytes too many", ErrCorrupt, len(b))
	}
	return names, nil
}

// check walks the records: sizes, topics, units, numbers, and bodies if asked.
func (v Batch) check(bodies bool) error {
	rest, left, number, named := v.Records, 0, uint64(0), 0
	for i := range v.Count {
		r, tail, err := Split(rest)
		if err != nil {
			return fmt.Errorf("message %d of the batch: %w", i, err)
		}
		if !allZero(rest[len(r):Stride(len(r))]) || !allZero(r[36:HeadBytes]) {
			return fmt.Errorf("%w: message %d of the batch: padding or head checksum is not zero", ErrCorrupt, i)
		}
		topic := int(r.Topic())
		if topic >= len(v.Topics) || topic > named {
			return fmt.Errorf("%w: message %d names topic %d of %d behind %d", ErrCorrupt, i, topic, len(v.Topics), named)
		}
		named = max(named, topic+1)
		if bodies {
			if got, want := Sum(r.Body()), binary.LittleEndian.Uint32(r[32:]); got != want {
				return fmt.Errorf("%w: message %d of the batch: body checksum %08x, want %08x", ErrCorrupt, i, got, want)
			}
			if err := checkBody(r.Body()); err != nil {
				return fmt.Errorf("message %d of the batch: %w", i, err)
			}
		}
		if left, number, err = v.checkUnit(i, r, left, number); err != nil {
			return err
		}
		rest = tail
	}
	// No unit is open here: none may begin that has no room for its messages.
	if len(rest) != 0 || named != len(v.Topics) {
		return fmt.Errorf("%w: behind the batch's last message %d bytes and %d topics are over", ErrCorrupt, len(rest), len(v.Topics)-named)
	}
	return nil
}

func (v Batch) checkUnit(i int, r Record, left int, number uint64) (int, uint64, error) {
	now := r.UnitLeft()
	starts := left == 0
	if starts && (r.Time() < 1 || r.Time() > int64(v.Count-i)) || !starts && now != left {
		return 0, 0, fmt.Errorf("%w: message %d of the batch: %d messages left in its unit, %d expected", ErrCorrupt, i, r.Time(), left)
	}
	want := number
	if starts {
		want = number + 1
	}
	idempotent := v.Producer != ProducerID{}
	switch {
	case !idempotent && r.Number() != 0:
		return 0, 0, fmt.Errorf("%w: message %d has number %d but the batch has no producer", ErrCorrupt, i, r.Number())
	case idempotent && r.Number() == 0:
		return 0, 0, fmt.Errorf("%w: message %d has no number", ErrCorrupt, i)
	case idempotent && i > 0 && r.Number() != want:
		return 0, 0, fmt.Errorf("%w: message %d has number %d, want %d", ErrCorrupt, i, r.Number(), want)
	}
	return now - 1, r.Number(), nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Builder collects units into a batch. The zero value is ready; a Builder is for
// one goroutine.
type Builder struct {
	topics  map[string]uint32
	table   []byte
	records []byte
	count   int
}

// Entry is one message of a unit on its way into a batch.
type Entry struct {
	Topic string
	Draft Draft
	// Expected is nil, or the last seq that the topic must have (0: none yet).
	Expected *uint64
}

// Add appends one atomic unit under the producer's number (0 without producer). It
// copies what it is given. Limits of names and drafts are the caller's to check.
func (b *Builder) Add(number uint64, unit ...Entry) {
	if b.topics == nil {
		b.topics = make(map[string]uint32)
	}
	for i, e := range unit {
		start := len(b.records)
		b.records = appendRecord(b.records, e.Draft)
		r := Record(b.records[start:])
		var condition uint64
		if e.Expected != nil {
			condition = min(*e.Expected, math.MaxUint64-1) + 1 // neither seq is ever reached
		}
		binary.LittleEndian.PutUint32(r[4:], b.topic(e.Topic))
		binary.LittleEndian.PutUint64(r[8:], number)
		binary.LittleEndian.PutUint64(r[16:], condition)
		binary.LittleEndian.PutUint64(r[24:], uint64(len(unit)-i))
		b.count++
	}
}

func (b *Builder) topic(name string) uint32 {
	id, ok := b.topics[name]
	if !ok {
		id = uint32(len(b.topics))
		b.topics[name] = id
		b.table = binary.LittleEndian.AppendUint16(b.table, uint16(len(name)))
		b.table = append(b.table, name...)
	}
	return id
}

// Count is the number of messages added since the last Reset.
func (b *Builder) Count() int { return b.count }

// Bytes is the length that Encode would give now.
func (b *Builder) Bytes() int { return BatchHeadBytes + Stride(len(b.table)) + len(b.records) }

// Encode appends the finished batch to dst. The Builder keeps its contents until
// Reset.
func (b *Builder) Encode(dst []byte, producer ProducerID) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, BatchHeadBytes)...)
	dst = pad(append(dst, b.table...), len(b.table))
	dst = append(dst, b.records...)
	h := dst[start:]
	binary.LittleEndian.PutUint32(h, batchMagic)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(h)))
	binary.LittleEndian.PutUint32(h[12:], uint32(b.count))
	copy(h[16:32], producer[:])
	binary.LittleEndian.PutUint32(h[32:], uint32(len(b.topics)))
	binary.LittleEndian.PutUint32(h[36:], uint32(Stride(len(b.table))))
	binary.LittleEndian.PutUint32(h[4:], Sum(h[8:]))
	return dst
}

// Reset empties the Builder and keeps its memory.
func (b *Builder) Reset() {
	clear(b.topics)
	b.table, b.records, b.count = b.table[:0], b.records[:0], 0
}
