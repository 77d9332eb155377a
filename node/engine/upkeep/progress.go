package upkeep

import (
	"fmt"
	"time"

	"chorale/node/engine/fetching"
	"chorale/node/engine/roster"
	"chorale/segments"

	"github.com/hashicorp/go-hclog"
)

const (
	// reportEvery is how often the log tells how far the fetching is.
	reportEvery = 10 * time.Second
	// warnEvery is how often it tells, at most, why files do not come.
	warnEvery = 5 * time.Second
)

// FetchStatus is how far the node is with fetching what it lacks.
type FetchStatus struct {
	fetching.Counts
	Missing      int   // files of the manifest that are not here
	MissingBytes int64 // of these
	PartialBytes int64 // of these, that have come
	AllBytes     int64 // of all files of the manifest
	// Left is about how long the rest takes; 0 if nothing is coming.
	Left time.Duration
}

// Share is how much of all bytes is here, 0 to 1.
func (s FetchStatus) Share() float64 {
	return 1 - float64(s.MissingBytes-s.PartialBytes)/float64(max(s.AllBytes, 1))
}

// Fetching is how far the node is with fetching what it lacks. What it builds itself is not
// missing.
func (k *Keeper) Fetching() FetchStatus {
	s := FetchStatus{Counts: k.fetcher.Counts()}
	for _, f := range k.o.History.Files() {
		s.AllBytes += f.Bytes
		if f.Here || k.o.Building.Makes(f.FileMeta) {
			continue
		}
		s.Missing++
		s.MissingBytes += f.Bytes
		begun, _ := k.fetcher.Partial().Begun(f.FileMeta)
		s.PartialBytes += begun
	}
	if s.Rate >= 1 && s.Missing > 0 {
		s.Left = time.Duration(float64(s.MissingBytes-s.PartialBytes) / s.Rate * float64(time.Second))
	}
	return s
}

// Coming is how far a node is, with what has come of unfinished copies counted as here.
func (k *Keeper) Coming(h roster.Health) roster.Health {
	if h.MissingFiles > 0 {
		h.MissingBytes = max(h.MissingBytes-k.Fetching().PartialBytes, 0)
	}
	return h
}

// report is what the log was told.
type report struct {
	begun, told time.Time // of what goes on now; zero if nothing does
	files       int64     // that had come before it began
	received    int64
	warned      time.Time
	quiet       int // failures that were not told since
}

// tell writes to the log how far the fetching is: when it begins, now and then, and when
// everything is here.
func (r *repairs) tell(missing []segments.FileMeta) {
	now, t := time.Now(), &r.report
	switch {
	case len(missing) == 0 && t.begun.IsZero():
		return
	case len(missing) > 0 && !t.begun.IsZero() && now.Sub(t.told) < reportEvery:
		return
	}
	s := r.Fetching()
	if len(missing) == 0 {
		r.o.Log.Info("no file is missing any more", "fetched", s.Files-t.files, "received", mib(s.Received-t.received), "took", now.Sub(t.begun).Round(time.Millisecond))
		t.begun = time.Time{}
		return
	}
	what := "still fetching missing files"
	if t.begun.IsZero() {
		t.begun, t.files, t.received = now, s.Files, s.Received
		what = "fetching missing files"
	}
	t.told = now
	tell := []any{"files", s.Missing, "to come", mib(s.MissingBytes - s.PartialBytes), "here", fmt.Sprintf("%.1f %%", 100*s.Share())}
	if s.Left > 0 {
		tell = append(tell, "rate", mib(int64(s.Rate))+"/s", "left", s.Left.Round(time.Second))
	}
	r.o.Log.Info(what, tell...)
}

// failure tells why a file did not come, unless that was told of another just now.
func (t *report) failure(log hclog.Logger, why error, pause time.Duration) {
	if time.Since(t.warned) < warnEvery {
		t.quiet++
		return
	}
	log.Warn("a missing file could not be brought back", "error", why, "again in", pause, "others since the last warning", t.quiet)
	t.warned, t.quiet = time.Now(), 0
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
