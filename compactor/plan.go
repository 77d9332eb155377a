package compactor

import (
	"fmt"
	"math"

	"chorale/segments"
	"chorale/segments/format"
)

// TopLevel is the highest level to which ranges are merged: the most often that a message is
// rewritten, as long as nothing has gone of its range. With the segment that it came in, it is
// written at most TopLevel+1 times then; see Rewrite.
const TopLevel = 3

// Range is one row of the manifest: a segment, or the stores of one layer.
type Range struct {
	// Level is how often the messages were rewritten: 0 is a segment.
	Level    int
	Messages uint64
	Bytes    int64 // of its files
	Span     int64 // ns from its first message to its last
	Files    []segments.Hash
}

// maxMessages is what a file can hold.
const maxMessages = math.MaxUint32

// tier is the level for which the range counts. Where FanOut ranges like it would not
// fit a file, or a range, it stays as it is, like those of the top.
func (s Settings) tier(r Range) int {
	fanOut := int64(s.FanOut)
	switch {
	case r.Messages > maxMessages/uint64(fanOut),
		s.RangeBytes > 0 && r.Bytes > s.RangeBytes/fanOut,
		s.RangeSpan > 0 && r.Span > s.RangeSpan/fanOut:
		return TopLevel
	}
	return r.Level
}

// Settings of the compaction. They may change at any time: they decide about the
// next plan alone.
type Settings struct {
	// FanOut is how many neighbouring ranges of a level make one of the next; at
	// least 2.
	FanOut int
	// StoreBytes of a range are worth a store, and MaxStores is the most of them
	// that a range gets. Both above 0; at most 65,536 stores.
	StoreBytes int64
	MaxStores  int
	// MaxFiles is the budget of live files. A plan gets at most 1/FanOut of what the
	// other files leave of it, and one store in any case: so there are at most
	// MaxFiles files and one for each range. Above 0.
	MaxFiles int
	// ChapterBytes goes into plans (Plan.Chapter): how far messages of a topic are brought
	// together, against the memory of who builds or reads all. At most
	// format.MaxChapterBytes.
	ChapterBytes uint32
	// RangeBytes and RangeSpan bound what a range may have of bytes and of time,
	// roughly: FanOut ranges that are each a FanOut-th of it are still put together.
	// 0 is no bound.
	RangeBytes, RangeSpan int64
}

// keptRanges is about how many ranges what is kept consists of, at least.
const keptRanges = 8

// Within are the settings for a stream of which only so many bytes, or so many ns, are
// kept; 0 is no limit. A range goes as a whole, so ranges must not become so large that
// much more is kept than was asked for.
func (s Settings) Within(bytes, age int64) Settings {
	if bytes > 0 {
		s.RangeBytes = max(bytes/keptRanges, 1)
	}
	if age > 0 {
		s.RangeSpan = max(age/keptRanges, 1)
	}
	return s
}

// DefaultSettings is what a real node plans by.
func DefaultSettings() Settings {
	return Settings{FanOut: 8, StoreBytes: 4 << 20, MaxStores: 128, MaxFiles: 16 << 10, ChapterBytes: format.ChapterBytes}
}

// maxStores is what the log takes.
const maxStores = 1 << 16

// Validate reports a setting that is out of bounds.
func (s Settings) Validate() error {
	switch {
	case s.FanOut < 2:
		return fmt.Errorf("fan-out of %d: at least 2 is needed", s.FanOut)
	case s.StoreBytes <= 0 || s.MaxFiles <= 0:
		return fmt.Errorf("stores of %d bytes, %d files: at least 1 of each is needed", s.StoreBytes, s.MaxFiles)
	case s.MaxStores <= 0 || s.MaxStores > maxStores:
		return fmt.Errorf("%d stores a range: 1 to %d are possible", s.MaxStores, maxStores)
	case s.ChapterBytes > format.MaxChapterBytes:
		return fmt.Errorf("chapters of %d bytes: up to %d are possible", s.ChapterBytes, format.MaxChapterBytes)
	}
	return nil
}

// Plan is a piece of work: rewrite some files as the stores of one layer.
type Plan struct {
	// Inputs are the files of whole neighbouring ranges, in the order of the
	// manifest.
	Inputs []segments.Hash
	// Stores is the most that the layer may have, at least 1.
	Stores uint32
	// Chapter is how many bytes of the stream the stores keep apart by topic; 0 is for
	// builds that do not know of it (see format.Header).
	Chapter uint32
}

// Choose returns what to compact next, or false if nothing is due. The ranges are
// those of the manifest, in its order. Pure.
//
// The level that is furthest behind goes first, and of two the lower one, whose
// ranges are newer. Of a level the oldest ranges go first.
func Choose(ranges []Range, s Settings) (Plan, bool) {
	var due []Range
	longest := s.FanOut - 1
	for end := len(ranges); end > 0; {
		start, tier := end-1, s.tier(ranges[end-1])
		for start > 0 && s.tier(ranges[start-1]) == tier {
			start--
		}
		if n := end - start; n > longest && tier < TopLevel {
			longest, due = n, ranges[start:start+s.FanOut]
		}
		end = start
	}
	if due == nil {
		return Plan{}, false
	}
	var bytes int64
	for _, r := range due {
		bytes += r.Bytes
	}
	return s.plan(ranges, due, bytes), true
}
