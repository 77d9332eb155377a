package backup

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"chorale/disk"
	"chorale/raftfsm"
	"chorale/segments"
)

// maxCuts bounds the cuts of one backup: each later one is for files that went away
// while those of the one before were copied.
const maxCuts = 10

// behindCuts bounds the states of nodes that have less than the backup before.
const behindCuts = 5

// errBehind marks a state that is older than the backup that is here.
var errBehind = errors.New("the backup here reaches")

// errSpoilt is why a file that was given is not taken.
var errSpoilt = errors.New("the file that the cluster gives is damaged: run chorale verify --deep, which has it repaired, and chorale backup again")

// maxTries bounds the tries for one file that does not come as it should: each may ask
// another node.
const maxTries = 3

// Source is a cluster that is backed up.
type Source interface {
	// State writes the state of a node that serves, as raftfsm has it in a snapshot, and
	// returns the node's id.
	State(ctx context.Context, w io.Writer) (node string, err error)
	// File writes a data file; an error that wraps ErrGone says that no node has it.
	File(ctx context.Context, h segments.Hash, w io.Writer) error
}

// ErrGone is returned by a Source for a file that no node has (any more).
var ErrGone = errors.New("no node has the file")

// Take says what is to be backed up, and where to.
type Take struct {
	To      disk.FS // root of the backup
	Source  Source
	Space   Space
	Version string // of the program
	// Pause is between two states, from the third on; 0 is a second.
	Pause time.Duration
	// Progress is told how many bytes of the data files are here and sound, of how many;
	// may be nil.
	Progress func(done, total int64)
}

// Taken is what a backup did.
type Taken struct {
	Description
	// Before is the seq of the backup that was there, 0 for none.
	Before uint64
	// Copied files came from the cluster, of which Bad took the place of bad ones; Kept
	// ones were there and sound; Removed ones are of no use any more.
	Copied, Bad, Kept, Removed int
	CopiedBytes                int64
	// Cuts is how many states were read, until all files of one were here.
	Cuts int
}

// taking is a backup under way.
type taking struct {
	Take
	old   *Description
	out   Taken
	sound map[string]bool // data files that are here and were read or written by this run
	done  int64           // their bytes
}

// Run makes the folder a backup of the cluster as of now. After an error it holds the
// backup that it held before, and whatever has come is used by the next run.
func (t Take) Run(ctx context.Context) (Taken, error) {
	x := taking{Take: t, sound: make(map[string]bool)}
	x.Pause = cmp.Or(t.Pause, time.Second)
	if t.Progress == nil {
		x.Progress = func(int64, int64) {}
	}
	if err := x.begin(); err != nil {
		return Taken{}, err
	}
	saved, err := x.rounds(ctx, func(m segments.Manifest) (gone, err error) { return x.files(ctx, m) })
	if err != nil {
		return Taken{}, err
	}
	return x.finish(saved)
}

// rounds reads a state and has its files brought, until none of them is gone.
func (x *taking) rounds(ctx context.Context, bring func(segments.Manifest) (gone, err error)) (*raftfsm.Saved, error) {
	for {
		saved, err := x.cut(ctx)
		if errors.Is(err, errBehind) && x.out.Cuts < behindCuts {
			continue // the next one is another node's, or a moment later
		}
		if err != nil {
			return nil, err
		}
		gone, err := bring(saved.Manifest)
		if gone == nil || err != nil {
			return saved, err
		}
		if x.out.Cuts == maxCuts {
			return nil, fmt.Errorf("%w; it was tried with %d states, one after the other: run chorale backup again, which goes on from here, "+
				"and name all nodes with --addr, if one of them may have it", gone, maxCuts)
		}
	}
}

// begin looks at the folder, and marks an empty one.
func (x *taking) begin() error {
	var err error
	if x.old, _, err = look(x.To); err != nil {
		return err
	}
	if x.old != nil {
		x.out.Before = x.old.Seq
		return x.To.MkdirAll(dataDir)
	}
	if err := x.To.MkdirAll("."); err != nil {
		return err
	}
	err = disk.WriteFile(x.To, ".", unfinishedFile, func(w io.Writer) error {
		_, err := io.WriteString(w, "A backup was begun here and has not ended. Run chorale backup again to go on with it.\n")
		return err
	})
	if err != nil {
		return err
	}
	return x.To.MkdirAll(dataDir)
}

// cut reads the state of a node into the folder.
func (x *taking) cut(ctx context.Context) (*raftfsm.Saved, error) {
	if x.out.Cuts++; x.out.Cuts > 2 { // nodes need not be at the same entry
		select {
		case <-time.After(x.Pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	node, err := x.readState(ctx)
	if err != nil {
		return nil, err
	}
	saved, file, err := readState(x.To, newStateFile)
	if err != nil {
		return nil, fmt.Errorf("the state of node %s: %w", node, err)
	}
	if saved.Genesis == (raftfsm.Genesis{}) {
		return nil, fmt.Errorf("the cluster of node %s is not founded yet: there is nothing to back up", node)
	}
	file.Name = fmt.Sprintf("state-%020d-%s.snap", saved.LastSeq, file.SHA256[:16])
	d := describe(saved, file)
	d.Node, d.Version = node, x.Version
	x.out.Description = d
	if x.old == nil {
		return saved, nil
	}
	switch {
	case x.old.Cluster != d.Cluster:
		return nil, fmt.Errorf("the folder holds a backup of cluster %s, and node %s is of cluster %s: name another folder, or nodes of that cluster with --addr",
			x.old.Cluster, node, d.Cluster)
	case x.old.Seq > d.Seq:
		return nil, fmt.Errorf("%w seq %d, and node %s has no more than %d: if it is behind, try again or name another node with --addr; "+
			"if the cluster has lost messages, keep this backup and name another folder", errBehind, x.old.Seq, node, d.Seq)
	}
	return saved, nil
}

func (x *taking) readState(ctx context.Context) (node string, err error) {
	f, err := x.To.Create(newStateFile)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriter(f)
	node, err = x.Source.State(ctx, w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return node, errors.Join(err, f.Close())
}

// files brings the files of a manifest here. gone says that some are with no node any
// more: the others are here.
func (x *taking) files(ctx context.Context, m segments.Manifest) (gone, err error) {
	if err := x.room(m); err != nil {
		return nil, err
	}
	var total int64
	x.done = 0
	for _, f := range m.Files {
		total += f.Bytes
	}
	for _, f := range m.Files {
		if !x.sound[f.Name()] {
			switch err := x.bring(ctx, f, total); {
			case errors.Is(err, ErrGone):
				gone = fmt.Errorf("messages %d to %d: %s: %w", f.First, f.Last, f.Name(), err)
				continue
			case err != nil:
				return nil, err
			}
			x.sound[f.Name()] = true
		}
		x.done += f.Bytes
		x.Progress(x.done, total)
	}
	return gone, nil
}

// room refuses to begin what does not fit.
func (x *taking) room(m segments.Manifest) error {
	entries, err := list(x.To, dataDir)
	if err != nil {
		return err
	}
	here := make(map[string]int64)
	for _, e := range entries {
		here[e.Name()] = e.Size()
	}
	var want int64
	for _, f := range m.Files {
		if _, ok := here[f.Name()]; !ok {
			want += f.Bytes
		}
	}
	return x.Space.check(want)
}

// bring checks a file that is here, or else fetches it.
func (x *taking) bring(ctx context.Context, f segments.FileMeta, total int64) error {
	read := int64(0)
	err := check(x.To, f, func(n int64) error {
		x.Progress(x.done+min(read, f.Bytes), total)
		read += n
		return ctx.Err()
	})
	if err == nil {
		x.out.Kept++
		return nil
	}
	bad := errors.Is(err, ErrDamaged)
	if !bad && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for try := 1; ; try++ {
		err = copyFile(x.To, dataDir, f, func(w io.Writer) error {
			return x.Source.File(ctx, f.Hash, &counting{w: w, told: func(n int64) { x.Progress(x.done+n, total) }})
		})
		if !errors.Is(err, errBadCopy) || try == maxTries {
			break
		}
	}
	switch {
	case errors.Is(err, errBadCopy):
		return fmt.Errorf("messages %d to %d: %w: %w", f.First, f.Last, errSpoilt, err)
	case err != nil:
		return err
	}
	x.out.Copied++
	x.out.CopiedBytes += f.Bytes
	if bad {
		x.out.Bad++
	}
	return nil
}

// counting tells how many bytes went through it.
type counting struct {
	w    io.Writer
	n    int64
	told func(int64)
}

// Write implements io.Writer.
func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.told(c.n)
	return n, err
}

// finish puts the new description in the place of the old one, and then removes what
// only the old one led to.
func (x *taking) finish(saved *raftfsm.Saved) (Taken, error) {
	d := &x.out.Description
	if err := x.To.Rename(newStateFile, d.State.Name); err != nil {
		return Taken{}, err
	}
	if err := x.To.SyncDir("."); err != nil {
		return Taken{}, err
	}
	d.Taken = time.Now().UTC().Truncate(time.Second)
	err := disk.WriteFile(x.To, ".", descriptionFile, func(w io.Writer) error {
		_, err := w.Write(d.encode())
		return err
	})
	if err != nil {
		return Taken{}, err
	}
	if x.out.Removed, err = prune(x.To, *d, saved.Manifest); err != nil {
		return x.out, fmt.Errorf("the backup is complete, but what it needs no more could not be removed; the next one tries again: %w", err)
	}
	return x.out, nil
}
