package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"chorale/disk"
	"chorale/raftfsm"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/gofrs/flock"
)

// The data folder:
//
//	identity.json   who this node is and which cluster it belongs to
//	peers.json      gossip addresses of the nodes that were seen
//	scrub.json      when each data file was last read to verify it
//	lock            held while a process uses the folder
//	raft/           log, stable store and snapshots
//	segments/       data files
//	partial/        data files that are being fetched from other nodes
//	restoring.json  a restore into the folder has begun, and not ended
const (
	identityFile = "identity.json"
	peersFile    = "peers.json"
	lockFile     = "lock"
	raftDir      = "raft"
	logFile      = "raft.db"   // in raftDir
	snapshotsDir = "snapshots" // in raftDir, as Raft calls it
)

const (
	// lockWait is how long a folder that is in use is waited for: the process that was
	// told to end may have ended for everybody but the system.
	lockWait  = time.Second
	lockRetry = 20 * time.Millisecond
)

// identity is what a folder remembers of its node.
type identity struct {
	Node string `json:"node_id"`
	// Incarnation tells this folder from any other that the node ever had; drawn when the
	// folder was made, not 0.
	Incarnation members.Incarnation `json:"incarnation"`
	// Joining: the node was let into its cluster and has nothing of its log yet.
	Joining bool `json:"joining,omitempty"`
	// Cluster is 32 hexadecimal digits, empty until the node knows it.
	Cluster string `json:"cluster_id,omitempty"`
	// Expect is the bootstrap-expect by which the node's cluster was founded; 0 if
	// the node was added to one.
	Expect int `json:"bootstrap_expect"`
	// Founding: this node is one of the first members of its cluster and has not
	// seen data on all of them yet.
	Founding bool `json:"founding,omitempty"`
	// Recovering: Survivor.Recover began on this folder and has not ended.
	Recovering bool `json:"recovering,omitempty"`
	// Former is the cluster that Survivor.Recover made the present one of, as Cluster.
	Former string `json:"former_cluster_id,omitempty"`
	// Level of the replicated log, 0 if it has none; LevelBy is a version that reads it. A
	// build that does not leaves the folder alone.
	Level   level.Level `json:"log_level,omitempty"`
	LevelBy string      `json:"log_level_by,omitempty"`
}

// folder is the locked data folder of a running node. Safe for concurrent use.
type folder struct {
	dir   string
	files disk.FS
	lock  *flock.Flock

	mu       sync.Mutex
	identity identity
}

// noPurpose is what a node with an empty folder is told that is to join none, nor found one.
var noPurpose = &ConfigError{"join", "", "the data folder is empty: want the gossip address of a node of the cluster, or bootstrap-expect to found one (1 is a cluster of this node alone)"}

// purpose refuses such a node before anything is written.
func (c Config) purpose() error {
	entries, err := os.ReadDir(c.Dir)
	empty := errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
	if empty && c.BootstrapExpect == 0 && len(c.Join) == 0 {
		return noPurpose
	}
	return nil
}

// openFolder makes, locks and reads the data folder, a new one for node id. Errors are for a
// person: they name the folder and what is wrong with it.
func openFolder(dir, id string) (*folder, error) {
	if err := os.MkdirAll(filepath.Join(dir, raftDir), 0o750); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f := &folder{dir: dir, files: disk.OS(dir), lock: flock.New(filepath.Join(dir, lockFile))}
	wait, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	locked, err := f.lock.TryLockContext(wait, lockRetry)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("data folder %s is in use by another process", dir)
	}
	if err != nil || !locked {
		return nil, fmt.Errorf("data folder %s cannot be written: %w", dir, err)
	}
	if err := f.read(id); err != nil {
		return nil, errors.Join(err, f.close())
	}
	if err := f.tidy(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// tidy removes what a process that was killed has not finished: small files beside the
// identity, and snapshots, which Raft passes over and never removes, each as large as what
// waits in memory for its file. The folders of data files are their rooms' own.
func (f *folder) tidy() error {
	for _, dir := range []string{f.dir, filepath.Join(f.dir, raftDir, snapshotsDir)} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data folder: %w", err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), disk.TempSuffix) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove what was not finished: %w", err)
			}
		}
	}
	return nil
}

func (f *folder) close() error { return f.lock.Unlock() }

// read loads the identity, or makes one where there is none yet. Whether it is
// node id's is for checkFlags to say, which knows what the folder holds.
func (f *folder) read(id string) error {
	path := filepath.Join(f.dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.foreign(); err != nil {
			return err
		}
		return f.change(func(i *identity) { i.Node, i.Incarnation = id, newIncarnation() })
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := json.Unmarshal(b, &f.identity); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	if f.identity.Node == "" {
		return fmt.Errorf("%s is damaged: it names no node", path)
	}
	if err := (level.Mark{Level: f.identity.Level, By: f.identity.LevelBy}).Check(level.Built()); err != nil {
		return fmt.Errorf("data folder %s: %w", f.dir, err)
	}
	if f.identity.Incarnation == 0 { // an earlier version made the folder
		return f.change(func(i *identity) { i.Incarnation = newIncarnation() })
	}
	return nil
}

func newIncarnation() members.Incarnation {
	var b [8]byte
	rand.Read(b[:])
	return members.Incarnation(binary.LittleEndian.Uint64(b[:]) | 1)
}

// foreign refuses a folder that has data but does not say whose.
func (f *folder) foreign() error {
	if _, err := os.Stat(filepath.Join(f.dir, restoreFile)); err == nil {
		return fmt.Errorf("data folder %s: a restore into it has not ended: run chorale restore again, or empty the folder", f.dir)
	}
	for _, dir := range []string{raftDir, "segments"} {
		entries, err := os.ReadDir(filepath.Join(f.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data folder: %w", err)
		}
		if len(entries) > 0 {
			return fmt.Errorf("data folder %s holds data in %s but no %s: it is damaged, or not a data folder", f.dir, dir, identityFile)
		}
	}
	return nil
}

// get is a copy of the identity.
func (f *folder) get() identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.identity
}

// change changes the identity and makes it durable.
func (f *folder) change(how func(*identity)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.identity
	how(&next)
	if next == f.identity {
		return nil
	}
	if err := f.writeJSON(identityFile, next); err != nil {
		return err
	}
	f.identity = next
	return nil
}

// cluster is the cluster's id; zero if it is not known yet.
func (f *folder) cluster() raftfsm.ClusterID {
	var id raftfsm.ClusterID
	_, _ = hex.Decode(id[:], []byte(f.get().Cluster))
	return id
}

// join notes the cluster, or refuses one that the folder does not belong to.
func (f *folder) join(id raftfsm.ClusterID) error {
	text := hex.EncodeToString(id[:])
	if known := f.get().Cluster; known != "" && known != text {
		return fmt.Errorf("data folder %s belongs to cluster %s, its log to cluster %s", f.dir, known, text)
	}
	return f.change(func(i *identity) { i.Cluster, i.Joining = text, false })
}

// atLevel notes the level of the log.
func (f *folder) atLevel(m level.Mark) error {
	if id := f.get(); m.Level <= id.Level {
		return nil
	}
	return f.change(func(i *identity) { i.Level, i.LevelBy = m.Level, m.By })
}

// letIn notes that the node was made a member of the cluster, before it has any data.
func (f *folder) letIn(cluster string) error {
	return f.change(func(i *identity) { i.Cluster, i.Joining = cluster, true })
}

// errDamagedPeers is no reason not to start: gossip writes the list anew.
var errDamagedPeers = errors.New("it does not hold a list of addresses")

// peers are the gossip addresses of an earlier life.
func (f *folder) peers() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(f.dir, peersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamagedPeers, err)
	}
	return out, nil
}

// savePeers replaces them.
func (f *folder) savePeers(addresses []string) error { return f.writeJSON(peersFile, addresses) }

func (f *folder) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	err = disk.WriteFile(f.files, ".", name, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("data folder %s: write %s: %w", f.dir, name, err)
	}
	return nil
}
