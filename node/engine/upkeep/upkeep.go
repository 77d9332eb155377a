// Package upkeep keeps the data files of a node whole: it knows which are missing and
// since when, brings them back from wherever it can, and reads all of them once in a
// while to find what went bad on the disk.
package upkeep

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"chorale/disk"
	"chorale/node/engine/building"
	"chorale/node/engine/fetching"
	"chorale/segments"
	"chorale/segments/partial"
	"chorale/tip"
	"chorale/topic"

	"github.com/hashicorp/go-hclog"
)

// Options of a Keeper.
type Options struct {
	History  *segments.Log
	Tip      *tip.Tip
	Topics   *topic.Table
	Building *building.State
	// Peers give files, at FetchRate bytes a second at most; 0 is no limit.
	Peers     fetching.Peers
	FetchRate int64
	// Current reports whether the manifest is the cluster's newest, as far as this node
	// was told: what it does not name is then not wanted.
	Current func() bool
	// Files is where the Keeper remembers when it read each file, and the root of the
	// folder for unfinished copies. Dir is that of the data files.
	Files disk.FS
	Dir   string
	Log   hclog.Logger
	// Every is how often each file is read; 0 is never.
	Every time.Duration
	// Rate is how many bytes a second that may take; 0 is what Every needs, but at
	// least MinRate.
	Rate int64
	// CaughtUp is closed when the manifest is the cluster's: what comes to it later is
	// new.
	CaughtUp <-chan struct{}
}

// Keeper looks after the files of one node. Repair and Scrub are its actors; the rest is
// for any goroutine.
type Keeper struct {
	o       Options
	fetcher *fetching.Fetcher

	mu sync.Mutex
	// lacks are the files that no reader here can have; as of the time when looked was
	// the history's Changed.
	lacks  map[segments.Hash]*lack
	first  segments.FileMeta // the oldest of them
	share  float64           // of all bytes
	files  int               // of the manifest
	looked <-chan struct{}
	// asked is when a reader first wanted a file that is missing still.
	asked map[segments.Hash]time.Time
	// wanted are the files that Repair is to fetch, as it last saw; unmended those of them
	// that could not be put together.
	wanted   map[segments.Hash]bool
	unmended map[segments.Hash]*unmended
	scrubState
}

// lack is what is known of a missing file.
type lack struct {
	since time.Time
	why   error // why it did not come the last time; nil if that is to be seen
}

// partialDir is the folder of unfinished copies.
const partialDir = "partial"

// New makes a Keeper that has looked at nothing yet but for the folder of unfinished copies.
func New(o Options) (*Keeper, error) {
	o.Every = max(o.Every, 0)
	parts, err := partial.Open(o.Files, partialDir)
	if err != nil {
		return nil, fmt.Errorf("open the unfinished copies: %w", err)
	}
	return &Keeper{
		o: o, fetcher: fetching.New(fetching.Options{
			Peers: o.Peers, Partial: parts, Import: o.History.Import, Rate: o.FetchRate, Log: o.Log.Named("fetching"),
		}),
		lacks: make(map[segments.Hash]*lack), asked: make(map[segments.Hash]time.Time),
		unmended:   make(map[segments.Hash]*unmended),
		scrubState: scrubState{read: make(map[segments.Hash]time.Time)},
	}, nil
}

// look brings what is known of missing files up to date. Under mu.
func (k *Keeper) look() {
	if k.looked != nil {
		select {
		case <-k.looked:
		default:
			return
		}
	}
	k.looked = k.o.History.Changed()
	before := k.lacks
	k.lacks = make(map[segments.Hash]*lack)
	var bytes, all int64
	files := k.o.History.Files()
	k.files = len(files)
	for _, f := range files {
		all += f.Bytes
		if f.Readable {
			continue
		}
		bytes += f.Bytes
		if len(k.lacks) == 0 {
			k.first = f.FileMeta
		}
		if k.lacks[f.Hash] = before[f.Hash]; k.lacks[f.Hash] == nil {
			k.lacks[f.Hash] = &lack{since: time.Now()}
		}
	}
	k.share = float64(bytes) / float64(max(all, 1))
	maps.DeleteFunc(k.asked, func(h segments.Hash, _ time.Time) bool { return k.lacks[h] == nil })
}

// failed notes why a file did not come.
func (k *Keeper) failed(meta segments.FileMeta, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	if l := k.lacks[meta.Hash]; l != nil {
		l.why = why
	}
}

// Lacking says what of the stream this node cannot give out, since when and why; "" if
// it has everything.
func (k *Keeper) Lacking() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	if len(k.lacks) == 0 {
		return ""
	}
	told := k.told(k.first.Hash)
	what := fmt.Sprintf("the file %s (messages %d to %d)", k.first.Name(), k.first.First, k.first.Last)
	if n := len(k.lacks); n == 1 {
		return fmt.Sprintf("%s is missing %s", what, told)
	} else {
		return fmt.Sprintf("%d of %d files are missing, %.0f%% of the bytes; first of all %s, %s", n, k.files, 100*k.share, what, told)
	}
}

// told is for behind "missing", what is known of a file that is; under mu.
func (k *Keeper) told(h segments.Hash) string {
	text := k.lacks[h].String()
	if m := k.unmended[h]; m != nil {
		text += fmt.Sprintf("; nor do damaged copies make it up: %v", m.why)
	}
	return text
}

// String is when and why.
func (l *lack) String() string {
	since := "since " + l.since.UTC().Format(time.RFC3339)
	if l.why == nil {
		return since + ", it is being fetched"
	}
	return fmt.Sprintf("%s: %v", since, l.why)
}

// Explain adds to the error of a reader, if it is for want of a file, what is known of
// that file, which is fetched before others now.
func (k *Keeper) Explain(err error) error {
	var missing *segments.MissingError
	if !errors.As(err, &missing) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	if k.lacks[missing.Meta.Hash] == nil {
		return err // it has come meanwhile
	}
	if _, before := k.asked[missing.Meta.Hash]; !before {
		k.asked[missing.Meta.Hash] = time.Now()
	}
	return fmt.Errorf("%w; missing %s", err, k.told(missing.Meta.Hash))
}
