// Package memlog is a Raft log and stable store over package disk, FOR TESTS ONLY:
// on a disk in memory it loses exactly what power loss would take from it, so that
// the simulation can crash nodes. It keeps everything in memory, and it cannot
// tell damage from an unfinished write; raftlog.Store above it can.
package memlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
	"sync"

	"chorale/disk"

	"github.com/hashicorp/raft"
)

// errNotFound has the text by which Raft knows that a key is missing.
var errNotFound = errors.New("not found")

// Log implements raft.LogStore and raft.StableStore. Safe for concurrent use.
type Log struct {
	fs  disk.FS
	dir string

	mu          sync.Mutex
	file        disk.File
	name        string
	logs        map[uint64]raft.Log
	first, last uint64
	values      map[string][]byte
}

// A file is a list of operations, each framed as
//
//	0  4  sum   CRC-32C of the rest
//	4  4  size  of the body
//	8     body  kind (1), then fields
//
// Opening reads the newest file that was finished (its first part ends with an
// operation of kind ready), writes what it found to a next one and goes on there.
const (
	kindStore byte = iota + 1
	kindDelete
	kindSet
	kindReady
)

const suffix = ".memlog"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open reads the log in a folder or makes a new one.
func Open(fsys disk.FS, dir string) (*Log, error) {
	l := &Log{fs: fsys, dir: dir}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	names, err := l.files()
	if err != nil {
		return nil, err
	}
	number := 0
	for i := len(names) - 1; i >= 0; i-- {
		if number == 0 {
			fmt.Sscanf(names[i], "%d", &number)
		}
		if ok, err := l.load(names[i]); err != nil {
			return nil, err
		} else if ok {
			break
		}
	}
	return l, l.rewrite(fmt.Sprintf("%08d%s", number+1, suffix), names)
}

func (l *Log) files() (names []string, err error) {
	list, err := l.fs.List(l.dir)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		if strings.HasSuffix(f.Name(), suffix) {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// load replays a file; ok is false if it was never finished.
func (l *Log) load(name string) (ok bool, err error) {
	l.reset()
	f, err := l.fs.Open(path.Join(l.dir, name))
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		return false, err
	}
	for {
		body, rest := frame(b)
		if body == nil {
			break
		}
		ok = ok || body[0] == kindReady
		l.replay(body)
		b = rest
	}
	if !ok {
		l.reset()
	}
	return ok, nil
}

func (l *Log) reset() {
	l.logs, l.values = make(map[uint64]raft.Log), make(map[string][]byte)
	l.first, l.last = 0, 0
}

// rewrite starts the file that the log goes on with, and removes the others.
func (l *Log) rewrite(name string, old []string) (err error) {
	if l.logs == nil {
		l.reset()
	}
	l.name = path.Join(l.dir, name)
	if l.file, err = l.fs.Create(l.name); err != nil {
		return err
	}
	var b []byte
	for i := l.first; i != 0 && i <= l.last; i++ {
		b = append(b, storeOp(l.logs[i])...)
	}
	keys := make([]string, 0, len(l.values))
	for k := range l.values {
		keys = append(keys, k)
	}
	for _, k := range sorted(keys) {
		b = append(b, setOp([]byte(k), l.values[k])...)
	}
	if err := l.write(append(b, seal([]byte{kindReady})...)); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	for _, n := range old {
		if err := l.fs.Remove(path.Join(l.dir, n)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) write(b []byte) error {
	if _, err := l.file.Write(b); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, nil
}

// LastIndex implements raft.LogStore.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, nil
}

// GetLog implements raft.LogStore.
func (l *Log) GetLog(index uint64, log *raft.Log) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.logs[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*log = found
	return nil
}

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore: one write, one sync.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	var ops [][]byte
	for _, e := range logs {
		ops = append(ops, storeOp(*e))
	}
	return l.apply(ops...)
}

// DeleteRange implements raft.LogStore.
func (l *Log) DeleteRange(first, last uint64) error {
	body := binary.LittleEndian.AppendUint64([]byte{kindDelete}, first)
	return l.apply(seal(binary.LittleEndian.AppendUint64(body, last)))
}

// Set implements raft.StableStore.
func (l *Log) Set(key, value []byte) error { return l.apply(setOp(key, value)) }

// Get implements raft.StableStore.
func (l *Log) Get(key []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.values[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return append([]byte(nil), v...), nil
}

// SetUint64 implements raft.StableStore.
func (l *Log) SetUint64(key []byte, value uint64) error {
	return l.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (l *Log) GetUint64(key []byte) (uint64, error) {
	v, err := l.Get(key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// apply makes operations durable and then visible.
func (l *Log) apply(ops ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []byte
	for _, op := range ops {
		all = append(all, op...)
	}
	if err := l.write(all); err != nil {
		return err
	}
	for _, op := range ops {
		l.replay(op[8:])
	}
	return nil
}
