package power

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"chorale/disk"

	"github.com/hashicorp/raft"
)

// snapshotDir holds a node's snapshots, named so that they sort by age. A file is
// the state, the description as JSON, and 8 bytes: length of the description and
// checksum of all before.
const (
	snapshotDir    = "snapshots"
	snapshotSuffix = ".snapshot"
	keptSnapshots  = 2
)

// Snapshots is a raft.SnapshotStore over files.
type Snapshots struct{ fsys disk.FS }

// OpenSnapshots opens the store, and makes durable what an earlier process left in it, as
// raftlog.OpenSnapshots does.
func OpenSnapshots(fsys disk.FS) (*Snapshots, error) {
	if err := fsys.MkdirAll(snapshotDir); err != nil {
		return nil, err
	}
	return &Snapshots{fsys}, fsys.SyncDir(snapshotDir)
}

// Create implements raft.SnapshotStore.
func (s *Snapshots) Create(v raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	meta := raft.SnapshotMeta{
		Version: v, ID: fmt.Sprintf("%010d-%010d", term, index), Index: index, Term: term,
		Configuration: c, ConfigurationIndex: configIndex,
	}
	f, err := s.fsys.Create(path.Join(snapshotDir, meta.ID+disk.TempSuffix))
	if err != nil {
		return nil, err
	}
	return &sink{store: s, meta: meta, file: f}, nil
}

// List implements raft.SnapshotStore.
func (s *Snapshots) List() ([]*raft.SnapshotMeta, error) {
	infos, err := s.fsys.List(snapshotDir)
	if err != nil {
		return nil, err
	}
	var out []*raft.SnapshotMeta
	for _, info := range slices.Backward(infos) {
		id, ok := strings.CutSuffix(info.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		meta, _, err := s.read(id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // reaped meanwhile
		case err != nil:
			return nil, err
		}
		out = append(out, meta)
	}
	return out, nil
}

// Open implements raft.SnapshotStore.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, state, err := s.read(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, io.NopCloser(bytes.NewReader(state)), nil
}

func (s *Snapshots) read(id string) (*raft.SnapshotMeta, []byte, error) {
	b, err := readFile(s.fsys, path.Join(snapshotDir, id+snapshotSuffix))
	if err != nil {
		return nil, nil, err
	}
	if len(b) < 8 || crc32.ChecksumIEEE(b[:len(b)-8]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, nil, fmt.Errorf("snapshot %s of %d bytes is damaged", id, len(b))
	}
	n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
	state, description := b[:len(b)-8-n], b[len(b)-8-n:len(b)-8]
	meta := &raft.SnapshotMeta{}
	if err := json.Unmarshal(description, meta); err != nil {
		return nil, nil, err
	}
	meta.Size = int64(len(state))
	return meta, state, nil
}

// sink is a snapshot being written.
type sink struct {
	store *Snapshots
	meta  raft.SnapshotMeta
	file  disk.File
	sum   uint32
	ended bool
}

// ID implements raft.SnapshotSink.
func (k *sink) ID() string { return k.meta.ID }

// Write implements raft.SnapshotSink.
func (k *sink) Write(p []byte) (int, error) {
	k.sum = crc32.Update(k.sum, crc32.IEEETable, p)
	return k.file.Write(p)
}

// Cancel implements raft.SnapshotSink. The unfinished file is replaced by the next
// try.
func (k *sink) Cancel() error {
	k.ended = true
	return k.file.Close()
}

// Close implements raft.SnapshotSink: it makes the snapshot durable, then drops
// the oldest.
func (k *sink) Close() error {
	if k.ended {
		return nil
	}
	k.ended = true
	description, err := json.Marshal(k.meta)
	if err != nil {
		return err
	}
	if _, err := k.Write(description); err != nil {
		return err
	}
	tail := binary.LittleEndian.AppendUint32(nil, uint32(len(description)))
	if _, err := k.file.Write(binary.LittleEndian.AppendUint32(tail, k.sum)); err != nil {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	if err := k.file.Close(); err != nil {
		return err
	}
	name := path.Join(snapshotDir, k.meta.ID)
	if err := k.store.fsys.Rename(name+disk.TempSuffix, name+snapshotSuffix); err != nil {
		return err
	}
	if err := k.store.fsys.SyncDir(snapshotDir); err != nil {
		return err
	}
	return k.store.reap()
}

func (s *Snapshots) reap() error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, m := range list[min(keptSnapshots, len(list)):] {
		// A snapshot of the node's own and one that is sent to it may end at once, and
		// both reap.
		if err := s.fsys.Remove(path.Join(snapshotDir, m.ID+snapshotSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
