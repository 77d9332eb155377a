package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"chorale/node/engine"
	"chorale/node/owner"
	"chorale/node/quorum"
	"chorale/node/raftlog"
	"chorale/raftfsm"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Survivor is the locked data folder of a node that does not run, of a cluster that has
// lost its majority. For one goroutine.
type Survivor struct {
	quorum.Report
	folder *folder
	log    *raftlog.Store
	state  *quorum.Survivor
}

// OpenSurvivor locks and reads a data folder. Data files and snapshots are left as they
// are, and of the log only that is mended which each start of the node mends. Errors are
// for a person.
func OpenSurvivor(dir string) (_ *Survivor, err error) {
	for _, need := range []string{identityFile, filepath.Join(raftDir, logFile)} {
		if _, err := os.Stat(filepath.Join(dir, need)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has no %s: want the data folder of a node that has run", dir, need)
		} else if err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
	}
	s := &Survivor{}
	if s.folder, err = openFolder(dir, ""); err != nil {
		return nil, fmt.Errorf("%w: stop the node first", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	raftPath := filepath.Join(dir, raftDir)
	if s.log, err = raftlog.Open(filepath.Join(raftPath, logFile), raftlog.DefaultDeadline); err != nil {
		return nil, err
	}
	// The next snapshot is the only one to stay: those of before are of another cluster.
	files, err := raftlog.OpenSnapshots(raftPath, 1, hclog.NewNullLogger())
	if err != nil {
		return nil, fmt.Errorf("open the snapshots in %s: %w", raftPath, err)
	}
	snapshots := s.log.Snapshots(files)
	if err := s.log.Reconcile(snapshots); err != nil {
		return nil, err
	}
	id := s.folder.get()
	s.state, err = quorum.Open(quorum.Options{
		ID: raft.ServerID(id.Node), Incarnation: id.Incarnation, Files: s.folder.files, Dir: engine.Dir, Logs: s.log, Snapshots: snapshots,
	})
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	s.Report = s.state.Report
	s.Folder, s.Node, s.Unfinished = dir, id.Node, id.Recovering
	// A folder that has never heard of a term has none stored.
	s.Term, _ = s.log.GetUint64([]byte("CurrentTerm"))
	s.Term = max(s.Term, s.LastTerm)
	return s, nil
}

// Close gives the folder back, and with it what root has written there.
func (s *Survivor) Close() error {
	var err error
	if s.log != nil {
		err = s.log.Close()
	}
	return errors.Join(err, owner.HandOver(s.folder.dir), s.folder.close())
}

// Refusal is why this folder cannot be recovered, or nil.
func (s *Survivor) Refusal() error {
	switch {
	case s.Problem != "":
		return fmt.Errorf("data folder %s: %s", s.Folder, s.Problem)
	case s.state.Voters() == 0 && !s.Unfinished:
		return fmt.Errorf("node %s is the only voter of its cluster already, so it needs nobody: start it", s.Node)
	}
	uid, _, err := owner.Of(s.folder.dir)
	if self := os.Geteuid(); err == nil && self != uid && self != 0 {
		err = fmt.Errorf("data folder %s belongs to the user of id %d, and this runs as %d: run it as that user or as root", s.Folder, uid, self)
	}
	return err
}

// Recover makes the node the only voter of a new cluster, which has everything that the
// folder has, and returns the new cluster's id. One that breaks off is to be repeated: the
// node does not start before.
func (s *Survivor) Recover() (cluster string, err error) {
	if err := s.Refusal(); err != nil {
		return "", err
	}
	if err := s.folder.change(func(i *identity) { i.Recovering = true }); err != nil {
		return "", err
	}
	var id raftfsm.ClusterID
	rand.Read(id[:])
	if err := s.state.Alone(id); err != nil {
		return "", fmt.Errorf("data folder %s: %w", s.Folder, err)
	}
	cluster = hex.EncodeToString(id[:])
	return cluster, s.folder.change(func(i *identity) {
		i.Former, i.Cluster, i.Recovering, i.Joining, i.Founding = i.Cluster, cluster, false, false, false
	})
}
