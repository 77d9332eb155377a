package node

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"chorale/disk"
	"chorale/node/engine"
	"chorale/node/founding"
	"chorale/node/owner"
	"chorale/raftfsm"

	"github.com/gofrs/flock"
)

// restoreFile is in a folder as long as a restore into it has not ended.
const restoreFile = "restoring.json"

// beginning is what restoreFile says.
type beginning struct {
	Node    string `json:"node_id"`
	Cluster string `json:"from_cluster_id"` // whose backup it is
}

// Restoring is a locked data folder in which a node of a new cluster is founded from a
// saved state. It implements backup.Target.
type Restoring struct {
	folder folder
	id     string
}

// BeginRestore takes the data folder dir for node id: it does not exist, is empty, or was
// begun for the same id and with a backup of the same cluster before. A folder that holds anything else is
// refused, with what to do.
func BeginRestore(dir, id, cluster string) (_ *Restoring, err error) {
	if !validID.MatchString(id) {
		return nil, &ConfigError{"id", id, idRule}
	}
	begun, err := checkTarget(dir, beginning{id, cluster})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	r := &Restoring{folder{dir: dir, files: disk.OS(dir), lock: flock.New(filepath.Join(dir, lockFile))}, id}
	if locked, err := r.folder.lock.TryLock(); err != nil {
		return nil, fmt.Errorf("data folder %s cannot be written: %w", dir, err)
	} else if !locked {
		return nil, fmt.Errorf("data folder %s is in use by another process", dir)
	}
	if begun {
		// It has no identity, so no node ever ran on it.
		err = os.RemoveAll(filepath.Join(dir, raftDir))
	} else {
		err = r.folder.writeJSON(restoreFile, beginning{id, cluster})
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// checkTarget reports whether a restore was begun in the folder, and refuses one that
// holds anything else.
func checkTarget(dir string, want beginning) (begun bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("data folder: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockFile || e.Name() == "lost+found" })
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	switch {
	case len(entries) == 0:
		return false, nil
	case has(identityFile):
		return false, fmt.Errorf("data folder %s belongs to a node already, and nothing of it was changed: name an empty folder, or one that does not exist yet", dir)
	case !has(restoreFile):
		return false, fmt.Errorf("data folder %s is not empty (it has %s), and nothing of it was changed: name an empty folder, or one that does not exist yet", dir, entries[0].Name())
	}
	b, err := os.ReadFile(filepath.Join(dir, restoreFile))
	if err != nil {
		return false, fmt.Errorf("data folder: %w", err)
	}
	var was beginning
	if err := json.Unmarshal(b, &was); err != nil || was != want {
		return false, fmt.Errorf("in data folder %s a restore was begun for node %q from a backup of cluster %s: go on with that, or empty the folder, and restore again", dir, was.Node, was.Cluster)
	}
	return true, nil
}

// Files implements backup.Target.
func (r *Restoring) Files() disk.FS { return r.folder.files }

// Dir implements backup.Target.
func (r *Restoring) Dir() string { return engine.Dir }

// Close implements backup.Target. What root has written is the owner's of the folder.
func (r *Restoring) Close() error {
	return errors.Join(owner.HandOver(r.folder.dir), r.folder.close())
}

// Found implements backup.Target: the state becomes the snapshot that the node starts
// with, as the only voter. The identity comes last: without it no node starts here.
func (r *Restoring) Found(s *raftfsm.Saved) (cluster raftfsm.ClusterID, err error) {
	rand.Read(cluster[:])
	err = r.folder.files.MkdirAll(raftDir)
	if err == nil {
		err = founding.Write(filepath.Join(r.folder.dir, raftDir), logFile, r.id, s.Index, s.Refound(cluster))
	}
	if err != nil {
		return cluster, fmt.Errorf("data folder %s: write the state: %w", r.folder.dir, err)
	}
	if err := r.folder.writeJSON(identityFile, identity{
		Node: r.id, Incarnation: newIncarnation(), Cluster: hex.EncodeToString(cluster[:]), Expect: 1,
		Level: s.Level.Level, LevelBy: s.Level.By,
	}); err != nil {
		return cluster, err
	}
	return cluster, r.folder.files.Remove(restoreFile)
}
