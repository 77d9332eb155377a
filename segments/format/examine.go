package format

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"chorale/message"
	"chorale/topic"
)

// Report is what Examine found out about a file. Its JSON is what the inspector
// prints.
type Report struct {
	Path       string            `json:"path"`
	Kind       Kind              `json:"kind"` // 0 if the header is damaged
	Bytes      int64             `json:"bytes"`
	Hash       string            `json:"sha256"`
	First      uint64            `json:"first_seq"`
	Last       uint64            `json:"last_seq"`
	FirstTime  int64             `json:"first_time_ns"`
	LastTime   int64             `json:"last_time_ns"`
	Messages   uint64            `json:"messages"`
	Chapter    uint32            `json:"chapter_bytes,omitempty"` // of a store; see Header
	Trailer    Trailer           `json:"-"`
	Blocks     int               `json:"blocks"`
	Records    uint64            `json:"record_bytes"` // of all blocks, before compression
	Partitions []PartitionVolume `json:"partitions"`   // of a segment
	Topics     []TopicVolume     `json:"topics"`
	// Findings is empty for a sound file.
	Findings []string `json:"findings"`
	first    error
}

// maxFindings bounds the list; a file that is damaged so often has one cause.
const maxFindings = 20

// Add records a finding.
func (r *Report) Add(finding error) {
	switch n := len(r.Findings); {
	case n == 0:
		r.first = finding
		fallthrough
	case n < maxFindings:
		r.Findings = append(r.Findings, finding.Error())
	case n == maxFindings:
		r.Findings = append(r.Findings, "and more")
	}
}

// Err is the first finding, nil for a sound file.
func (r *Report) Err() error { return r.first }

// PartitionVolume is what a file holds of one topic partition.
type PartitionVolume struct {
	Name     string `json:"name"`
	ID       uint32 `json:"id"`
	Offset   int64  `json:"offset"`
	Bytes    int64  `json:"bytes"`
	Blocks   int    `json:"blocks"`
	Messages uint64 `json:"messages"`
}

// Examine reads the whole file and proves everything that the file alone can
// prove: all checksums, that each seq is there exactly once (in a store at most once,
// and in order), that each message names the one before it of its topic, and that the
// tables say what the records are. It reports as much as a damaged file still gives.
func Examine(r io.ReaderAt, size int64, path string) *Report {
	e := &examiner{r: r, report: &Report{Path: path, Bytes: size}, volumes: make(map[uint32]*TopicVolume)}
	e.hash(size)
	f, err := Open(r, size, path)
	if err != nil {
		e.report.Add(err)
		return e.report
	}
	e.file = f
	h := f.Header
	e.report.Kind, e.report.Messages, e.report.Chapter = h.Kind, h.Messages, h.Chapter
	e.report.First, e.report.Last, e.report.FirstTime, e.report.LastTime = h.First, h.Last, h.FirstTime, h.LastTime
	e.report.Trailer = f.Trailer
	if e.report.Topics, err = f.Topics(r); err != nil {
		e.report.Add(err)
	}
	if h.Kind == KindStore {
		e.store()
	} else {
		e.segment()
	}
	return e.report
}

// segment examines what a segment has behind its header.
func (e *examiner) segment() {
	x, err := e.file.Index(e.r)
	if err != nil {
		e.report.Add(err)
		return
	}
	if _, err := e.file.SeekTime(e.r, e.file.Header.FirstTime); err != nil {
		e.report.Add(err)
	}
	e.report.Blocks = len(x.Blocks)
	e.partitions(x)
	e.records(x)
}

type examiner struct {
	r      io.ReaderAt
	file   *File
	report *Report
	// volumes are what the records say, by topic id.
	volumes map[uint32]*TopicVolume
}

func (e *examiner) hash(size int64) {
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(e.r, 0, size)); err != nil {
		e.report.Add(fmt.Errorf("%s: %w", e.report.Path, err))
		return
	}
	e.report.Hash = hex.EncodeToString(sum.Sum(nil))
}

// partitions pairs the groups of blocks with the groups of topics: both are in
// tree order.
func (e *examiner) partitions(x *Index) {
	var names []string
	for _, v := range e.report.Topics {
		if p := topic.Partition(v.Name); len(names) == 0 || names[len(names)-1] != p {
			names = append(names, p)
		}
	}
	for _, b := range x.Blocks {
		list := e.report.Partitions
		if n := len(list); n == 0 || list[n-1].ID != b.Partition {
			p := PartitionVolume{ID: b.Partition, Offset: b.Off}
			if n < len(names) {
				p.Name = names[n]
			}
			e.report.Partitions = append(list, p)
		}
		p := &e.report.Partitions[len(e.report.Partitions)-1]
		p.Bytes += int64(b.Bytes)
		p.Blocks++
		p.Messages += uint64(b.Count)
		e.report.Records += uint64(b.Bytes)
	}
	if e.report.Topics != nil && len(names) != len(e.report.Partitions) {
		e.report.Add(e.file.Damage(HeaderBytes, fmt.Errorf("blocks of %d partitions, topics of %d", len(e.report.Partitions), len(names))))
	}
}

// records reads all blocks and compares what they hold with the tables.
func (e *examiner) records(x *Index) {
	h := e.file.Header
	times := make([]int64, h.Messages) // by seq; -1 is not seen
	for i := range times {
		times[i] = -1
	}
	var buf []byte
	for _, b := range x.Blocks {
		buf = append(buf[:0], make([]byte, b.Bytes)...)
		err := e.file.ReadBlocks(e.r, []Block{b}, buf)
		if err == nil {
			err = e.block(b.Off, b.First, b.Last, b.Count, buf, func(r message.Record) error {
				rel := r.Seq() - h.First
				if times[rel] != -1 {
					return fmt.Errorf("seq %d is twice in the file", r.Seq())
				}
				times[rel] = r.Time()
				return nil
			})
		}
		if err != nil {
			e.report.Add(err)
		}
	}
	if len(e.report.Findings) > 0 {
		return // what follows would only repeat it
	}
	e.compareTopics()
	e.compareTimes(times)
}

// block checks the records of one block, which are told to each.
func (e *examiner) block(off int64, first, last, count uint32, buf []byte, each func(message.Record) error) error {
	n, before := uint32(0), uint64(0)
	for len(buf) > 0 {
		r, rest, err := message.Split(buf)
		if err == nil {
			err = r.Check()
		}
		if err != nil {
			return e.file.Damage(off, err)
		}
		rel := r.Seq() - e.file.Header.First
		if r.Seq() <= before || rel < uint64(first) || rel > uint64(last) {
			return e.file.Damage(off, fmt.Errorf("seq %d behind seq %d, or outside of the block", r.Seq(), before))
		}
		if err := errors.Join(e.count(r), each(r)); err != nil {
			return e.file.Damage(off, err)
		}
		before, buf = r.Seq(), rest
		n++
	}
	if n != count {
		return e.file.Damage(off, fmt.Errorf("%d records, the block table says %d", n, count))
	}
	return nil
}

// count adds a record to its topic, all of whose messages of the range are in the file; of a
// store the oldest ones may have gone.
func (e *examiner) count(r message.Record) error {
	v := e.volumes[r.Topic()]
	if v == nil {
		if h := e.file.Header; h.Kind == KindSegment && r.Prev() >= h.First {
			return fmt.Errorf("seq %d of topic %d says that seq %d is before it, which is not in the file", r.Seq(), r.Topic(), r.Prev())
		}
		v = &TopicVolume{ID: r.Topic(), First: r.Seq()}
		e.volumes[r.Topic()] = v
	} else if r.Prev() != v.Last {
		return fmt.Errorf("seq %d of topic %d says that seq %d is before it, the file has %d", r.Seq(), r.Topic(), r.Prev(), v.Last)
	}
	v.Messages, v.Bytes, v.Last = v.Messages+1, v.Bytes+uint64(message.Stride(len(r))), r.Seq()
	return nil
}

func (e *examiner) compareTopics() {
	volumes := e.volumes
	off := e.file.Trailer.Tables[TopicTable].Off
	for _, want := range e.report.Topics {
		have := volumes[want.ID]
		if have == nil {
			have = &TopicVolume{}
		}
		have.Name = want.Name
		if *have != want {
			e.report.Add(e.file.Damage(off, fmt.Errorf("topic table says %+v, the records %+v", want, *have)))
		}
		delete(volumes, want.ID)
	}
	if len(volumes) > 0 {
		e.report.Add(e.file.Damage(off, fmt.Errorf("records of %d topics that are not in the topic table", len(volumes))))
	}
}

// compareTimes builds the time table anew from the records.
func (e *examiner) compareTimes(times []int64) {
	var t Times
	for _, now := range times {
		t.Add(now)
	}
	if want := e.file.Trailer.Tables[TimeTable]; message.Sum(t.Table()) != want.Sum {
		e.report.Add(e.file.Damage(want.Off, fmt.Errorf("time table differs from the records")))
	}
}
