package format

import (
	"encoding/binary"
	"fmt"
	"math"

	"chorale/topic"
)

// The topic table lists the topics in tree order, each as
//
//	uvarint  bytes shared with the name before
//	uvarint  further bytes, and these
//	uvarint  topic id
//	uvarint  messages
//	uvarint  bytes of their padded records
//	uvarint  seq of the first - first seq of the file
//	uvarint  seq of the last - seq of the first
//
// The partitions of the file are those of its topics, in the same order.

// TopicVolume is what a file holds of one topic.
type TopicVolume struct {
	Name     string `json:"name"`
	ID       uint32 `json:"id"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"` // of the padded records
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

const (
	topicFields     = 5
	topicEntryBytes = 2 + topicFields // at least
)

// appendTopics encodes volumes, which are in tree order.
func appendTopics(b []byte, first uint64, volumes []TopicVolume) []byte {
	before := ""
	for _, v := range volumes {
		shared := sharedPrefix(before, v.Name)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(v.Name)-shared))
		b = append(b, v.Name[shared:]...)
		for _, x := range [topicFields]uint64{uint64(v.ID), v.Messages, v.Bytes, v.First - first, v.Last - v.First} {
			b = binary.AppendUvarint(b, x)
		}
		before = v.Name
	}
	return b
}

func sharedPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// decodeTopics checks order, limits and sums. How many bytes a store holds before
// compression, its block table says.
func decodeTopics(b []byte, h Header, t Trailer) ([]TopicVolume, error) {
	if uint64(t.Topics)*topicEntryBytes > uint64(len(b)) {
		return nil, fmt.Errorf("%w: %d topics in a table of %d bytes", ErrCorrupt, t.Topics, len(b))
	}
	total := uint64(t.Blocks)
	if t.Kind == KindStore {
		total = maxStoreBytes
	}
	volumes := make([]TopicVolume, 0, t.Topics)
	var name []byte
	var messages, bytes uint64
	for i := range int(t.Topics) {
		var v TopicVolume
		var err error
		if v, name, b, err = decodeTopic(b, name, h); err != nil {
			return nil, fmt.Errorf("%w: topic %d of the table: %w", ErrCorrupt, i, err)
		}
		if i > 0 && topic.Compare(volumes[i-1].Name, v.Name) >= 0 {
			return nil, fmt.Errorf("%w: topic %q stands behind %q", ErrCorrupt, v.Name, volumes[i-1].Name)
		}
		if v.Messages > h.Messages-messages || v.Bytes > total-bytes {
			return nil, fmt.Errorf("%w: topic %q has %d messages in %d bytes, more than are left", ErrCorrupt, v.Name, v.Messages, v.Bytes)
		}
		messages += v.Messages
		bytes += v.Bytes
		volumes = append(volumes, v)
	}
	if len(b) != 0 || messages != h.Messages || bytes != total && t.Kind != KindStore {
		return nil, fmt.Errorf("%w: topic table sums to %d messages and %d bytes, want %d and %d; %d bytes are over",
			ErrCorrupt, messages, bytes, h.Messages, total, len(b))
	}
	return volumes, nil
}

// decodeTopic takes one entry off b. name is the name before, and is overwritten.
func decodeTopic(b, name []byte, h Header) (v TopicVolume, grown, rest []byte, err error) {
	var n [2]uint64
	b, ok := takeUvarints(b, n[:])
	if !ok || n[0] > uint64(len(name)) || n[1] > uint64(len(b)) || n[0]+n[1] > topic.MaxBytes {
		return v, nil, nil, fmt.Errorf("its name shares %d bytes and has %d more", n[0], n[1])
	}
	if n[1] > 0 && n[0] < uint64(len(name)) && name[n[0]] == b[0] {
		return v, nil, nil, fmt.Errorf("its name shares more than %d bytes", n[0])
	}
	name = append(name[:n[0]], b[:n[1]]...)
	var f [topicFields]uint64
	rest, ok = takeUvarints(b[n[1]:], f[:])
	span := h.Last - h.First
	if !ok || f[0] > math.MaxUint32 || f[1] == 0 || f[3] > span || f[4] > span-f[3] || f[1] > f[4]+1 {
		return v, nil, nil, fmt.Errorf("%q with id, messages, bytes, first and last %d", name, f)
	}
	first := h.First + f[3]
	return TopicVolume{Name: string(name), ID: uint32(f[0]), Messages: f[1], Bytes: f[2], First: first, Last: first + f[4]}, name, rest, nil
}

// takeUvarints fills out from the front of b. Only the shortest forms count, so
// that a table has one encoding.
func takeUvarints(b []byte, out []uint64) ([]byte, bool) {
	for i := range out {
		v, n := binary.Uvarint(b)
		if n <= 0 || n > 1 && b[n-1] == 0 {
			return b, false
		}
		out[i], b = v, b[n:]
	}
	return b, true
}
