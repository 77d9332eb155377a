// Package quorum is for a cluster that has lost the majority of its voters for good: it
// tells how far the folder of a stopped node goes, so that survivors can be compared, and
// makes one of them the only voter of a cluster of its own.
package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"chorale/disk"
	"chorale/raftfsm"
	"chorale/raftfsm/members"
	"chorale/segments"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/raft"
)

// Options is a node's folder, which nobody else has open. Log and snapshots fit together
// (raftlog.Reconcile has said so).
type Options struct {
	ID          raft.ServerID
	Incarnation members.Incarnation
	Files       disk.FS // root of the data files
	Dir         string  // of the data files below it
	Logs        raft.LogStore
	Snapshots   raft.SnapshotStore
}

// File is a data file.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Server is a node of Raft's configuration.
type Server struct {
	ID    string `json:"id"`
	Voter bool   `json:"voter"`
}

// Report is what a folder has.
type Report struct {
	Folder string `json:"folder"`
	Node   string `json:"node_id"`
	// Cluster is 32 hexadecimal digits.
	Cluster string `json:"cluster_id"`
	// Unfinished: an earlier recovery of this folder broke off.
	Unfinished bool `json:"unfinished"`
	// Term is the newest that the node has heard of.
	Term uint64 `json:"term"`
	// LastIndex and LastTerm are of the last entry, in the log or else in the snapshot.
	LastIndex uint64 `json:"last_index"`
	LastTerm  uint64 `json:"last_term"`
	// SnapshotIndex and SnapshotTerm are where the newest snapshot ends; 0 without one.
	SnapshotIndex uint64 `json:"snapshot_index"`
	SnapshotTerm  uint64 `json:"snapshot_term"`
	OldestSeq     uint64 `json:"oldest_seq"`
	// SureSeq is the last message that a majority is known to have had. Those behind it
	// up to LastSeq may never have been acknowledged.
	SureSeq uint64 `json:"sure_seq"`
	LastSeq uint64 `json:"last_seq"`
	// LastTime is that of the newest message: ns since 1970 UTC, 0 without one.
	LastTime int64 `json:"last_time"`
	// Missing are files that the history needs and that are not here, or damaged.
	Missing []File `json:"missing_files"`
	// Servers is Raft's newest configuration.
	Servers []Server `json:"servers"`
	// Problem is why this node cannot be what is left of its cluster, or "".
	Problem string `json:"problem"`
}

// Compare orders reports of survivors, the best one first: the one whose last entry has
// the highest term, and of these the highest index. It has everything that was
// acknowledged and that any of the others has.
func Compare(a, b Report) int {
	for _, d := range [][2]uint64{{a.LastTerm, b.LastTerm}, {a.LastIndex, b.LastIndex}} {
		if d[0] != d[1] {
			if d[0] > d[1] {
				return -1
			}
			return 1
		}
	}
	return len(a.Missing) - len(b.Missing)
}

// Survivor is a folder whose whole log was applied, in memory: nothing on the disk has
// changed. For one goroutine.
type Survivor struct {
	Report
	o       Options
	fsm     *raftfsm.FSM
	history *segments.Log
	servers []raft.Server
	halted  error
}

// Open reads a folder to the end of its log, committed or not. It writes nothing. Folder,
// Node, Cluster and Term of the report are the caller's to fill in.
func Open(o Options) (*Survivor, error) {
	s := &Survivor{o: o}
	topics, ring := topic.NewTable(), tip.New(tip.MinBytes)
	var err error
	// No file is built: what is in no file stays in memory, and goes into the snapshot.
	s.history, err = segments.Open(segments.Options{FS: untouched{o.Files}, Dir: o.Dir, Topics: topics, PendingStretches: math.MaxInt})
	if err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	s.fsm = raftfsm.New(raftfsm.Options{Topics: topics, Tip: ring, History: s.history, Halt: func(err error) { s.halted = err }})
	if err := s.restore(); err != nil {
		return nil, err
	}
	if err := s.replay(); err != nil {
		return nil, err
	}
	s.tell()
	return s, nil
}

// restore takes the newest snapshot that can be read, as Raft does.
func (s *Survivor) restore() error {
	all, err := s.o.Snapshots.List()
	if err != nil {
		return fmt.Errorf("list the snapshots: %w", err)
	}
	var failed []error
	for _, m := range all {
		_, r, err := s.o.Snapshots.Open(m.ID)
		if err == nil {
			err = errors.Join(s.fsm.Restore(r), r.Close())
		}
		if err == nil {
			s.SnapshotIndex, s.SnapshotTerm = m.Index, m.Term
			s.LastIndex, s.LastTerm, s.servers = m.Index, m.Term, m.Configuration.Servers
			s.SureSeq = s.fsm.View().LastSeq
			return nil
		}
		failed = append(failed, fmt.Errorf("snapshot %s: %w", m.ID, err))
	}
	return errors.Join(failed...)
}

// replay applies the log behind the snapshot. What of it was committed is not written
// anywhere, so all of it is taken.
func (s *Survivor) replay() error {
	last, err := s.o.Logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the raft log: %w", err)
	}
	for i := s.SnapshotIndex + 1; i <= last; i++ {
		var l raft.Log
		if err := s.o.Logs.GetLog(i, &l); err != nil {
			return fmt.Errorf("read entry %d of the raft log: %w", i, err)
		}
		switch l.Type {
		case raft.LogCommand:
			if s.fsm.Apply(&l); s.halted != nil {
				return fmt.Errorf("the log cannot be applied: %w", s.halted)
			}
		case raft.LogConfiguration:
			s.servers = raft.DecodeConfiguration(l.Data).Servers
		}
		s.LastIndex, s.LastTerm = l.Index, l.Term
	}
	return nil
}

// tell fills the report.
func (s *Survivor) tell() {
	v := s.fsm.View()
	s.OldestSeq, s.LastSeq, s.LastTime = s.history.Oldest(), v.LastSeq, v.LastTime
	// An edit of the manifest is proposed by a leader that has applied what it names.
	s.SureSeq = max(s.SureSeq, s.history.Manifest().End())
	if v.Genesis.Cluster != (raftfsm.ClusterID{}) {
		s.Cluster = fmt.Sprintf("%x", v.Genesis.Cluster)
	}
	s.Missing, s.Servers = []File{}, []Server{}
	for _, m := range s.history.Missing() {
		s.Missing = append(s.Missing, File{m.Name(), m.Bytes})
	}
	for _, c := range s.servers {
		s.Servers = append(s.Servers, Server{string(c.ID), c.Suffrage == raft.Voter})
	}
	s.Problem = s.problem()
}

// problem is why the node cannot go on alone.
func (s *Survivor) problem() string {
	list, _ := s.fsm.Members()
	_, err := list.Alone(max(s.fsm.View().Index, 1), string(s.o.ID), s.o.Incarnation, s.ids())
	switch {
	case s.Cluster == "":
		return "it has nothing of a cluster yet: empty it, and let the node join or found one"
	case errors.Is(err, members.ErrRemoved):
		return "the node was removed from its cluster, which went on without it: recover one of the others"
	case errors.Is(err, members.ErrOtherFolder):
		return "the node's id has passed to another data folder: recover that one, or one of the other nodes"
	case err != nil:
		return err.Error()
	case s.self() < 0:
		return "the node was not in the configuration of its cluster any more: recover one of the others"
	}
	return ""
}

// ids are those of the configuration.
func (s *Survivor) ids() (out []string) {
	for _, c := range s.servers {
		out = append(out, string(c.ID))
	}
	return out
}

func (s *Survivor) self() int {
	return slices.IndexFunc(s.servers, func(c raft.Server) bool { return c.ID == s.o.ID })
}

// Voters counts those of the newest configuration, but for this node.
func (s *Survivor) Voters() (others int) {
	for _, c := range s.servers {
		if c.Suffrage == raft.Voter && c.ID != s.o.ID {
			others++
		}
	}
	return others
}

// Alone writes what was read as the snapshot of a new cluster, in which this node alone
// votes and the others are removed, and cuts the log. It may be repeated if it broke off.
// Afterwards the survivor is of no more use.
func (s *Survivor) Alone(cluster raftfsm.ClusterID) error {
	if s.Problem != "" {
		return errors.New(s.Problem)
	}
	if err := s.fsm.Refound(cluster, string(s.o.ID), s.o.Incarnation, s.ids()); err != nil {
		return err
	}
	snapshot, err := s.fsm.Snapshot()
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	alone := s.servers[s.self()]
	alone.Suffrage = raft.Voter
	_, addresses := raft.NewInmemTransport("")
	sink, err := s.o.Snapshots.Create(raft.SnapshotVersionMax, s.LastIndex, s.LastTerm, raft.Configuration{Servers: []raft.Server{alone}}, 1, addresses)
	if err != nil {
		return fmt.Errorf("make a snapshot: %w", err)
	}
	if err := snapshot.Persist(sink); err != nil {
		return err
	}
	// From here on a start takes the new snapshot, and its configuration: entries of the
	// log count behind its end only.
	first, err := s.o.Logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("cut the raft log: %w", err)
	}
	last, err := s.o.Logs.LastIndex()
	if err == nil && last > 0 {
		err = s.o.Logs.DeleteRange(first, last)
	}
	if err != nil {
		return fmt.Errorf("cut the raft log: %w", err)
	}
	return nil
}

// untouched is a disk that is only read. What a history does to its folder when it opens,
// it will do again when the node starts.
type untouched struct{ disk.FS }

// List implements disk.FS.
func (u untouched) List(dir string) ([]fs.FileInfo, error) {
	entries, err := u.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Create implements disk.FS.
func (untouched) Create(name string) (disk.File, error) {
	return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrPermission}
}

// Append implements disk.FS.
func (u untouched) Append(name string) (disk.File, error) { return u.Create(name) }

// Rename implements disk.FS.
func (untouched) Rename(string, string) error { return nil }

// Remove implements disk.FS.
func (untouched) Remove(string) error { return nil }

// MkdirAll implements disk.FS.
func (untouched) MkdirAll(string) error { return nil }

// SyncDir implements disk.FS.
func (untouched) SyncDir(string) error { return nil }
