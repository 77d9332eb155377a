// Package founding writes what Raft starts with in a folder whose state comes from
// elsewhere.
package founding

import (
	"errors"
	"path/filepath"

	"chorale/disk"
	"chorale/node/raftlog"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// term is that of the snapshot, the first one that Raft knows.
	term = 1
	// address stands for that of the only server, which is found by its id.
	address = "restored:0"
)

// Write makes log and snapshot in the folder dir, which is there and empty: the state,
// as of that index, of a cluster with node id as its only voter. All is durable when it
// returns. The log's file has that name.
func Write(dir, log, id string, index uint64, state raft.FSMSnapshot) (err error) {
	store, err := raftlog.Open(filepath.Join(dir, log), raftlog.DefaultDeadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	files, err := raftlog.OpenSnapshots(dir, 1, hclog.NewNullLogger())
	if err != nil {
		return err
	}
	_, transport := raft.NewInmemTransport(address) // encodes the address for earlier versions of Raft
	defer transport.Close()
	servers := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(id), Address: address}}}
	sink, err := store.Snapshots(files).Create(raft.SnapshotVersionMax, index, term, servers, index, transport)
	if err != nil {
		return err
	}
	if err := state.Persist(sink); err != nil {
		return err
	}
	if err := store.SetUint64([]byte("CurrentTerm"), term); err != nil {
		return err
	}
	return disk.OS(dir).SyncDir(".") // that of the snapshots is new, too
}
