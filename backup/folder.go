// Package backup copies a cluster, as of one seq, into a folder, checks such a folder,
// and makes of it what another cluster is founded from.
package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"chorale/disk"
	"chorale/raftfsm"
	"chorale/segments"
	"chorale/segments/data"
)

// The names in a backup.
const (
	descriptionFile = "backup.json"
	unfinishedFile  = "unfinished"
	newStateFile    = "state.new"
	dataDir         = "segments"
	// LockFile is for who uses the folder, to keep others out.
	LockFile = "lock"
)

var (
	stateName = regexp.MustCompile(`^state-[0-9]{20}-[0-9a-f]{16}\.snap$`)
	dataName  = regexp.MustCompile(`^[0-9]{20}-[0-9]{20}-[0-9a-f]{16}\.(seg|store)$`)
)

// ErrNotEmpty is returned for a folder that holds something that is no backup.
var ErrNotEmpty = errors.New("the folder is not empty and holds no backup: name an empty one, or one that does not exist yet")

// Space is how many bytes more fit into a folder. It may be nil where nobody knows.
type Space func() (int64, error)

// check refuses what does not fit.
func (s Space) check(want int64) error {
	if s == nil {
		return nil
	}
	free, err := s()
	if err != nil {
		return err
	}
	if free < want {
		return fmt.Errorf("too little space: %d bytes are to be written and %d are free, so nothing was written: make room, or name a folder on another disk", want, free)
	}
	return nil
}

// list is the entries of a folder; none where there is no folder.
func list(fsys disk.FS, dir string) ([]fs.FileInfo, error) {
	entries, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// look tells what the folder holds: a description, or nil for nothing, or for a backup
// that was begun only. Anything else is ErrNotEmpty.
func look(fsys disk.FS) (d *Description, begun bool, err error) {
	d, err = readDescription(fsys)
	if errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: if the cluster still runs, rename the file to %q and run chorale backup again, which uses every data file that is sound", err, unfinishedFile)
	}
	if d != nil || err != nil {
		return d, false, err
	}
	entries, err := list(fsys, ".")
	if err != nil {
		return nil, false, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.FileInfo) bool { return e.Name() == LockFile || e.Name() == "lost+found" })
	if len(entries) == 0 {
		return nil, false, nil
	}
	for _, e := range entries {
		begun = begun || e.Name() == unfinishedFile || e.Name() == unfinishedFile+disk.TempSuffix
	}
	if !begun {
		var names []string
		for _, e := range entries[:min(len(entries), 3)] {
			names = append(names, e.Name())
		}
		return nil, false, fmt.Errorf("%w (it has %s)", ErrNotEmpty, strings.Join(names, ", "))
	}
	return nil, true, nil
}

// nodeFile is in the data folder of every node, and in no backup.
const nodeFile = "identity.json"

// Exists refuses a folder that holds something that is no backup, not even one that was
// begun. It reads no more than it must: whether the backup is complete and sound is for
// Verify. The error is ErrNone.
func Exists(fsys disk.FS) error {
	_, _, err := look(fsys)
	if !errors.Is(err, ErrNotEmpty) {
		return nil // what else is wrong is told by whoever reads it
	}
	entries, err := list(fsys, ".")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e fs.FileInfo) bool { return e.Name() == nodeFile }) {
		return fmt.Errorf("%w is here, this is the data folder of a node: name the folder that chorale backup has written", ErrNone)
	}
	return fmt.Errorf("%w is here, but something else: name the folder that chorale backup has written", ErrNone)
}

// Fit refuses a folder that no backup may be written to, before anything of it is touched.
func Fit(fsys disk.FS) error {
	_, _, err := look(fsys)
	return err
}

// complete is the description of a complete backup, and its state.
func complete(fsys disk.FS) (Description, *raftfsm.Saved, error) {
	if err := Exists(fsys); err != nil {
		return Description{}, nil, err
	}
	d, begun, err := look(fsys)
	switch {
	case err != nil:
		return Description{}, nil, err
	case begun:
		return Description{}, nil, fmt.Errorf("%w is complete here: the first one was interrupted; chorale backup goes on with it", ErrNone)
	case d == nil:
		return Description{}, nil, fmt.Errorf("%w is here: the folder is empty or does not exist", ErrNone)
	}
	saved, err := openState(fsys, *d)
	return *d, saved, err
}

// check reads a data file of a backup to its end. Missing and damaged ones are errors
// that wrap fs.ErrNotExist or ErrDamaged.
func check(fsys disk.FS, f segments.FileMeta, pace func(int64) error) error {
	open, err := data.Verify(fsys, path.Join(dataDir, f.Name()), f, pace)
	if err != nil && open {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, f.Name(), err)
	}
	return err
}

// copyFile writes a data file that write gives, hashed on the way.
func copyFile(fsys disk.FS, dir string, f segments.FileMeta, write func(io.Writer) error) error {
	return disk.WriteFile(fsys, dir, f.Name(), func(w io.Writer) error {
		sum := data.NewSum()
		if err := write(io.MultiWriter(w, sum)); err != nil {
			return err
		}
		if err := sum.Check(f); err != nil {
			return fmt.Errorf("%w: %w", errBadCopy, err)
		}
		return nil
	})
}

// errBadCopy marks a copy whose bytes are not those that were asked for.
var errBadCopy = errors.New("the copy is not the file")

// prune removes what was a backup's and is not of this one, and counts the data files.
func prune(fsys disk.FS, d Description, m segments.Manifest) (removed int, err error) {
	named := names(m)
	for _, dir := range []string{".", dataDir} {
		entries, err := list(fsys, dir)
		if err != nil {
			return removed, err
		}
		for _, e := range entries {
			name := e.Name()
			switch {
			case e.IsDir(), dir == "." && !ours(name, d.State.Name), dir == dataDir && (named[name] || !dataFile(name)):
				continue
			}
			if err := fsys.Remove(path.Join(dir, name)); err != nil {
				return removed, err
			}
			if dir == dataDir {
				removed++
			}
		}
		if err := fsys.SyncDir(dir); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func names(m segments.Manifest) map[string]bool {
	out := make(map[string]bool)
	for _, f := range m.Files {
		out[f.Name()] = true
	}
	return out
}

// ours reports whether a name beside the description is of no use beside this state.
func ours(name, state string) bool {
	return name == unfinishedFile || name == newStateFile || name == descriptionFile+disk.TempSuffix || name == unfinishedFile+disk.TempSuffix ||
		stateName.MatchString(name) && name != state
}

func dataFile(name string) bool {
	return dataName.MatchString(strings.TrimSuffix(name, disk.TempSuffix))
}
