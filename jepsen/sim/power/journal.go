package power

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"chorale/disk"

	"github.com/hashicorp/raft"
)

// journalDir holds a node's journals: one file a run of the node, named so that
// they sort by age.
const journalDir = "raft"

// A record of a journal is its length and checksum (4 bytes each), then its kind
// and fields. A run's journal ends at its first bad record: that is where the
// power went, and nothing behind it was ever acknowledged.
const (
	recordEntry  = 'E' // index, term, type, data length, data, extensions
	recordDelete = 'D' // first, last
	recordSet    = 'S' // key length, key, value
)

// Journal is a raft.LogStore and raft.StableStore: everything in memory, and each
// change appended to a file and synced. Safe for concurrent use.
type Journal struct {
	file    disk.File
	writing chan struct{} // holds one token; a channel, since a bubble waits for it properly
	failed  error         // guarded by the token: after a failed write nothing is written

	mu          sync.RWMutex
	entries     map[uint64]*raft.Log
	first, last uint64
	values      map[string][]byte
}

// OpenJournal replays the journals of earlier runs and starts the next. A process
// that was killed may have left what it had not synced: it can be read, so it is
// synced now, before anybody relies on it.
func OpenJournal(fsys disk.FS) (*Journal, error) {
	j := &Journal{writing: make(chan struct{}, 1), entries: map[uint64]*raft.Log{}, values: map[string][]byte{}}
	if err := fsys.MkdirAll(journalDir); err != nil {
		return nil, err
	}
	infos, err := fsys.List(journalDir)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if !strings.HasSuffix(info.Name(), ".journal") {
			return nil, fmt.Errorf("a foreign file among the journals: %s", info.Name())
		}
		name := journalDir + "/" + info.Name()
		if err := syncFile(fsys, name); err != nil {
			return nil, err
		}
		b, err := readFile(fsys, name)
		if err != nil {
			return nil, err
		}
		j.replay(b)
	}
	if j.file, err = fsys.Create(fmt.Sprintf("%s/%06d.journal", journalDir, len(infos)+1)); err != nil {
		return nil, err
	}
	return j, fsys.SyncDir(journalDir)
}

func syncFile(fsys disk.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func readFile(fsys disk.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	_, err = f.ReadAt(b, 0)
	return b, err
}

func (j *Journal) replay(b []byte) {
	for len(b) >= 8 {
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-8) || n == 0 || crc32.ChecksumIEEE(b[8:8+n]) != binary.LittleEndian.Uint32(b[4:]) {
			return
		}
		j.apply(b[8 : 8+n])
		b = b[8+n:]
	}
}

// apply performs one record on the memory. mu is held, or nobody else is there.
func (j *Journal) apply(r []byte) {
	kind, r := r[0], r[1:]
	switch kind {
	case recordEntry:
		l := &raft.Log{
			Index: binary.LittleEndian.Uint64(r), Term: binary.LittleEndian.Uint64(r[8:]), Type: raft.LogType(r[16]),
			AppendedAt: time.Unix(0, int64(binary.LittleEndian.Uint64(r[17:]))),
		}
		n := binary.LittleEndian.Uint32(r[25:])
		l.Data, l.Extensions = slices.Clone(r[29:29+n]), slices.Clone(r[29+n:])
		j.entries[l.Index] = l
		if j.first == 0 {
			j.first = l.Index
		}
		j.last = max(j.last, l.Index)
	case recordDelete:
		first, last := binary.LittleEndian.Uint64(r), binary.LittleEndian.Uint64(r[8:])
		for i := first; i <= last; i++ {
			delete(j.entries, i)
		}
		j.narrow()
	case recordSet:
		n := binary.LittleEndian.Uint32(r)
		j.values[string(r[4:4+n])] = slices.Clone(r[4+n:])
	default:
		panic(fmt.Sprintf("record of kind %q in a journal", kind))
	}
}

// narrow moves the bounds after a deletion. Raft may leave a gap below the entries
// that follow an installed snapshot.
func (j *Journal) narrow() {
	for j.first <= j.last && j.entries[j.first] == nil {
		j.first++
	}
	for j.last >= j.first && j.entries[j.last] == nil {
		j.last--
	}
	if len(j.entries) == 0 {
		j.first, j.last = 0, 0
	}
}

func frame(dst, record []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(record)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(record))
	return append(dst, record...)
}

// write makes the records durable and then performs them.
func (j *Journal) write(records ...[]byte) error {
	var b []byte
	for _, r := range records {
		b = frame(b, r)
	}
	j.writing <- struct{}{}
	defer func() { <-j.writing }()
	if j.failed != nil {
		return j.failed
	}
	if _, err := j.file.Write(b); err != nil {
		j.failed = err
		return err
	}
	if err := j.file.Sync(); err != nil {
		j.failed = err
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range records {
		j.apply(r)
	}
	return nil
}

// FirstIndex implements raft.LogStore.
func (j *Journal) FirstIndex() (uint64, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.first, nil
}

// LastIndex implements raft.LogStore.
func (j *Journal) LastIndex() (uint64, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.last, nil
}

// GetLog implements raft.LogStore.
func (j *Journal) GetLog(index uint64, l *raft.Log) error {
	j.mu.RLock()
	defer j.mu.RUnlock()
	e, ok := j.entries[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*l = *e
	l.Data = slices.Clone(e.Data)
	return nil
}

// StoreLog implements raft.LogStore.
func (j *Journal) StoreLog(l *raft.Log) error { return j.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (j *Journal) StoreLogs(logs []*raft.Log) error {
	records := make([][]byte, len(logs))
	for i, l := range logs {
		r := []byte{recordEntry}
		r = binary.LittleEndian.AppendUint64(r, l.Index)
		r = binary.LittleEndian.AppendUint64(r, l.Term)
		r = append(r, byte(l.Type))
		r = binary.LittleEndian.AppendUint64(r, uint64(l.AppendedAt.UnixNano()))
		r = binary.LittleEndian.AppendUint32(r, uint32(len(l.Data)))
		records[i] = append(append(r, l.Data...), l.Extensions...)
	}
	return j.write(records...)
}

// DeleteRange implements raft.LogStore.
func (j *Journal) DeleteRange(first, last uint64) error {
	r := binary.LittleEndian.AppendUint64([]byte{recordDelete}, first)
	return j.write(binary.LittleEndian.AppendUint64(r, last))
}

// errNoValue has the text by which Raft knows an absent key.
var errNoValue = errors.New("not found")

// Set implements raft.StableStore.
func (j *Journal) Set(key, value []byte) error {
	r := binary.LittleEndian.AppendUint32([]byte{recordSet}, uint32(len(key)))
	return j.write(append(append(r, key...), value...))
}

// Get implements raft.StableStore.
func (j *Journal) Get(key []byte) ([]byte, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	v, ok := j.values[string(key)]
	if !ok {
		return nil, errNoValue
	}
	return slices.Clone(v), nil
}

// SetUint64 implements raft.StableStore.
func (j *Journal) SetUint64(key []byte, value uint64) error {
	return j.Set(key, binary.LittleEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (j *Journal) GetUint64(key []byte) (uint64, error) {
	v, err := j.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(v), nil
}

// Close gives the file back.
func (j *Journal) Close() error { return j.file.Close() }
