package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"

	"chorale/disk"
	"chorale/raftfsm"
	"chorale/segments"
	"chorale/segments/data"
)

// Restore says which backup is to become a new cluster, and where.
type Restore struct {
	From disk.FS // root of the backup
	// Open takes the new data folder, which is empty, or was begun with a backup of the same
	// cluster, whose id it is given; it refuses any other.
	Open  func(cluster string) (Target, error)
	Space Space
	// Progress is told how many bytes of the data files are in the new folder, of how many;
	// may be nil.
	Progress func(done, total int64)
}

// Target is a data folder that a cluster is founded in.
type Target interface {
	// Files is the folder's root, Dir the folder of the data files below it.
	Files() disk.FS
	Dir() string
	// Found writes the state, when all its files are there, and returns the id of the new
	// cluster. The folder is a node's from then on.
	Found(s *raftfsm.Saved) (raftfsm.ClusterID, error)
	// Close lets the folder go.
	Close() error
}

// Run restores the backup. After an error the target is as it was, or no node starts
// with it and another Run goes on with it.
func (r Restore) Run(ctx context.Context) (d Description, cluster raftfsm.ClusterID, err error) {
	d, saved, err := complete(r.From)
	if err != nil {
		return d, cluster, err
	}
	to, err := r.Open(d.Cluster)
	if err != nil {
		return d, cluster, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := r.files(ctx, to, saved.Manifest); err != nil {
		return d, cluster, err
	}
	cluster, err = to.Found(saved)
	return d, cluster, err
}

// files copies what the target lacks.
func (r Restore) files(ctx context.Context, to Target, m segments.Manifest) error {
	var total, want, done int64
	var lacking []segments.FileMeta
	for _, f := range m.Files {
		total += f.Bytes
		_, err := data.Verify(to.Files(), path.Join(to.Dir(), f.Name()), f, func(int64) error { return ctx.Err() })
		switch {
		case err == nil:
			done += f.Bytes
		case ctx.Err() != nil:
			return ctx.Err()
		default: // whatever is wrong with it, it is written anew
			lacking = append(lacking, f)
			want += f.Bytes
		}
	}
	if err := r.Space.check(want); err != nil {
		return err
	}
	if err := clear(to, m); err != nil {
		return err
	}
	for _, f := range lacking {
		if err := r.copy(ctx, to, f, func(n int64) {
			if r.Progress != nil {
				r.Progress(done+n, total)
			}
		}); err != nil {
			return err
		}
		done += f.Bytes
	}
	return nil
}

// clear makes the folder of the data files, and removes what was begun with another state
// of the backup and is of no use to this one.
func clear(to Target, m segments.Manifest) error {
	if err := to.Files().MkdirAll(to.Dir()); err != nil {
		return err
	}
	entries, err := to.Files().List(to.Dir())
	if err != nil {
		return err
	}
	named := names(m)
	for _, e := range entries {
		if name := e.Name(); dataFile(name) && !named[name] {
			if err := to.Files().Remove(path.Join(to.Dir(), name)); err != nil {
				return err
			}
		}
	}
	return to.Files().SyncDir(to.Dir())
}

// copy copies one file out of the backup.
func (r Restore) copy(ctx context.Context, to Target, f segments.FileMeta, told func(int64)) error {
	from, err := r.From.Open(path.Join(dataDir, f.Name()))
	if errors.Is(err, fs.ErrNotExist) {
		return r.damaged(f, err)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	err = copyFile(to.Files(), to.Dir(), f, func(w io.Writer) error {
		_, err := io.Copy(&counting{w: w, told: told}, &until{ctx, io.NewSectionReader(from, 0, math.MaxInt64)})
		return err
	})
	if errors.Is(err, errBadCopy) {
		return r.damaged(f, err)
	}
	return err
}

// damaged says that a file of the backup is not as it should be.
func (r Restore) damaged(f segments.FileMeta, err error) error {
	return fmt.Errorf("%w, and no node was founded: messages %d to %d: %w: chorale backup verify lists all that is bad; "+
		"if the cluster still runs, chorale backup mends it; then restore again, which goes on from here", ErrDamaged, f.First, f.Last, err)
}

// until is a reader that ends with its context.
type until struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
