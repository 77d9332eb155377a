package segments

import (
	"cmp"
	"encoding/binary"
	"fmt"

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
// In tree order the slash sorts before every other byte, so that a topic is
// followed by its subtree, and the topics of a partition stand together.

// TopicVolume is what a file holds of one topic.
type TopicVolume struct {
	Name        string
	ID          uint32
	Messages    uint64
	Bytes       uint64 // of the padded records
	First, Last uint64 // seqs
}

// compareTree orders names such that a topic is followed by its subtree.
func compareTree(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' {
			return -1
		}
		if b[i] == '/' {
			return 1
		}
		return cmp.Compare(a[i], b[i])
	}
	return cmp.Compare(len(a), len(b))
}

// appendTopics encodes volumes, which are in tree order.
func appendTopics(b []byte, first uint64, volumes []TopicVolume) []byte {
	before := ""
	for _, v := range volumes {
		shared := 0
		for shared < min(len(before), len(v.Name)) && before[shared] == v.Name[shared] {
			shared++
		}
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(v.Name)-shared))
		b = append(b, v.Name[shared:]...)
		for _, x := range [...]uint64{uint64(v.ID), v.Messages, v.Bytes, v.First - first, v.Last - v.First} {
			b = binary.AppendUvarint(b, x)
		}
		before = v.Name
	}
	return b
}

// decodeTopics checks order, limits and sums.
func decodeTopics(b []byte, h header, count uint32, blockBytes int64) ([]TopicVolume, error) {
	if uint64(count)*7 > uint64(len(b)) {
		return nil, fmt.Errorf("%w: %d topics in a table of %d bytes", ErrCorrupt, count, len(b))
	}
	volumes := make([]TopicVolume, 0, count)
	span := h.last - h.first
	var name []byte
	var messages, bytes uint64
	for i := range int(count) {
		shared, suffix, rest, ok := takeSuffix(b)
		if !ok || shared > uint64(len(name)) || shared+uint64(len(suffix)) > topic.MaxBytes {
			return nil, fmt.Errorf("%w: name of topic %d of the table", ErrCorrupt, i)
		}
		name = append(name[:shared], suffix...)
		var f [5]uint64
		if b, ok = takeUvarints(rest, f[:]); !ok {
			return nil, fmt.Errorf("%w: topic table is cut in topic %d", ErrCorrupt, i)
		}
		if f[0] > 1<<32-1 || f[1] == 0 || f[1] > span+1 || f[2] > uint64(blockBytes) || f[3] > span || f[4] > span-f[3] {
			return nil, fmt.Errorf("%w: topic %q with id, messages, bytes, first and last %d", ErrCorrupt, name, f)
		}
		v := TopicVolume{Name: string(name), ID: uint32(f[0]), Messages: f[1], Bytes: f[2], First: h.first + f[3], Last: h.first + f[3] + f[4]}
		if i > 0 && compareTree(volumes[i-1].Name, v.Name) >= 0 {
			return nil, fmt.Errorf("%w: topic %q stands behind %q", ErrCorrupt, v.Name, volumes[i-1].Name)
		}
		messages += v.Messages
		bytes += v.Bytes
		volumes = append(volumes, v)
	}
	if len(b) != 0 || messages != span+1 || bytes != uint64(blockBytes) {
		return nil, fmt.Errorf("%w: topic table sums to %d messages and %d bytes, want %d and %d; %d bytes are over",
			ErrCorrupt, messages, bytes, span+1, blockBytes, len(b))
	}
	return volumes, nil
}

// The time table lists the runs of messages with equal time, each as
//
//	uvarint  messages
//	uvarint  their time - time of the run before (of the first: - the file's first)
//
// All messages of a log entry have one time, so a run is at least an entry.

// timeRuns builds the table.
type timeRuns struct {
	table  []byte
	before int64 // time of the last finished run
	now    int64
	count  uint64
}

func (r *timeRuns) add(t int64) {
	if r.count > 0 && t != r.now {
		r.finish()
	}
	if len(r.table) == 0 && r.count == 0 {
		r.before = t
	}
	r.now = t
	r.count++
}

func (r *timeRuns) finish() []byte {
	r.table = binary.AppendUvarint(r.table, r.count)
	r.table = binary.AppendUvarint(r.table, uint64(r.now-r.before))
	r.before, r.count = r.now, 0
	return r.table
}

// seekTime returns the last seq before the first message of time t or later; the
// file's last seq if there is none.
func seekTime(b []byte, h header, t int64) (uint64, error) {
	after, now, found := h.first-1, h.firstTime, uint64(0)
	hit := false
	for len(b) > 0 {
		var f [2]uint64
		var ok bool
		if b, ok = takeUvarints(b, f[:]); !ok || f[0] == 0 || f[0] > h.last-after || f[1] > uint64(h.lastTime-now) {
			return 0, fmt.Errorf("%w: time table behind seq %d", ErrCorrupt, after)
		}
		now += int64(f[1])
		if !hit && now >= t {
			found, hit = after, true
		}
		after += f[0]
	}
	if after != h.last || now != h.lastTime {
		return 0, fmt.Errorf("%w: time table ends at seq %d, time %d, want %d and %d", ErrCorrupt, after, now, h.last, h.lastTime)
	}
	if !hit {
		return h.last, nil
	}
	return found, nil
}

func takeSuffix(b []byte) (shared uint64, suffix, rest []byte, ok bool) {
	var f [2]uint64
	if rest, ok = takeUvarints(b, f[:]); !ok || f[1] > uint64(len(rest)) {
		return 0, nil, nil, false
	}
	return f[0], rest[:f[1]], rest[f[1]:], true
}

func takeUvarints(b []byte, out []uint64) ([]byte, bool) {
	for i := range out {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		out[i], b = v, b[n:]
	}
	return b, true
}
