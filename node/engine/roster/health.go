package roster

import (
	"fmt"
	"time"

	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/segments"

	"github.com/hashicorp/raft"
)

// Health is how far a node is, by its own word.
type Health struct {
	Incarnation  members.Incarnation
	Applied      uint64
	MissingFiles int
	MissingBytes int64
	// Voters is the Electorate of the newest configuration of Raft in its log.
	Voters uint64
	// Ends: the node is about to end, on purpose.
	Ends bool
	// Undurable are files of the manifest that are not on its disk: missing, or still to
	// be built from memory.
	Undurable int
	// Built are its segments that no edit has named yet, oldest first.
	Built []segments.Hash
	// Plan is the newest plan that it was done with, PlanSum what it has built for it
	// (building.Result.Sum).
	Plan    uint64
	PlanSum segments.Hash
	// Leader is whom it follows.
	Leader raft.ServerID
	// Reads is what of the log its build understands, Version which one that is.
	Reads   level.Range
	Version string
}

// Behind says what the node lacks of these files, or else of the log.
func (h Health) Behind(files []segments.FileMeta, commit uint64) string {
	if h.MissingFiles == 0 {
		return fmt.Sprintf("catching up: %d %% of the log, applied index %d, committed %d", 100*min(h.Applied, commit)/max(commit, 1), h.Applied, commit)
	}
	var all int64
	for _, f := range files {
		all += f.Bytes
	}
	return fmt.Sprintf("catching up: %d %% of the files are here, %d of %d are missing, %.1f MiB", 100*(all-h.MissingBytes)/max(all, 1), h.MissingFiles, len(files), float64(h.MissingBytes)/(1<<20))
}

// Patience is with files that are missing: as long as some come.
type Patience struct {
	missing int64
	since   time.Time
}

// Waits reports whether a node should wait for its files before it serves. What nobody
// can give it must not keep it from serving the rest.
func (p *Patience) Waits(h Health, now time.Time) bool {
	if h.MissingBytes != p.missing {
		p.missing, p.since = h.MissingBytes, now
	}
	return h.MissingFiles > 0 && now.Sub(p.since) < filesWait
}
