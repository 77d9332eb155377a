package memlog

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"
)

// seal frames the body of an operation.
func seal(body []byte) []byte {
	b := make([]byte, 8, 8+len(body))
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// frame takes the first operation off b; nil where nothing complete is left.
func frame(b []byte) (body, rest []byte) {
	if len(b) < 8 {
		return nil, nil
	}
	n := int(binary.LittleEndian.Uint32(b[4:]))
	if n == 0 || n > len(b)-8 || crc32.Checksum(b[4:8+n], castagnoli) != binary.LittleEndian.Uint32(b) {
		return nil, nil
	}
	return b[8 : 8+n], b[8+n:]
}

// storeOp leaves the time out that an entry was appended at: nothing depends on it.
func storeOp(e raft.Log) []byte {
	le := binary.LittleEndian
	b := []byte{kindStore}
	b = le.AppendUint64(b, e.Index)
	b = le.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	b = le.AppendUint32(b, uint32(len(e.Data)))
	b = append(b, e.Data...)
	return seal(append(b, e.Extensions...))
}

func setOp(key, value []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{kindSet}, uint32(len(key)))
	return seal(append(append(b, key...), value...))
}

// replay does what an operation says; its checksum was checked.
func (l *Log) replay(body []byte) {
	le := binary.LittleEndian
	kind, b := body[0], body[1:]
	switch kind {
	case kindStore:
		n := le.Uint32(b[17:])
		e := raft.Log{
			Index: le.Uint64(b), Term: le.Uint64(b[8:]), Type: raft.LogType(b[16]),
			Data: slices.Clone(b[21 : 21+n]), Extensions: slices.Clone(b[21+n:]),
		}
		l.logs[e.Index] = e
		if l.first == 0 {
			l.first = e.Index
		}
		l.last = max(l.last, e.Index)
	case kindDelete:
		l.remove(le.Uint64(b), le.Uint64(b[8:]))
	case kindSet:
		n := le.Uint32(b)
		l.values[string(b[4:4+n])] = slices.Clone(b[4+n:])
	}
}

func (l *Log) remove(first, last uint64) {
	for i := max(first, l.first); i <= last && i <= l.last; i++ {
		delete(l.logs, i)
	}
	for l.first <= l.last && l.logs[l.first].Index == 0 {
		l.first++
	}
	for l.last >= l.first && l.logs[l.last].Index == 0 {
		l.last--
	}
	if len(l.logs) == 0 {
		l.first, l.last = 0, 0
	}
}

func sorted(keys []string) []string {
	slices.Sort(keys)
	return keys
}
