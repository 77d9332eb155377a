package segments

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/format"
	"chorale/topic"
)

// Build turns cut stretches into files, and removes files that edits have removed,
// until ctx ends (nil) or the disk fails.
func (l *Log) Build(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := l.BuildOne()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-l.wake:
		}
	}
	return nil
}

// BuildOne builds the oldest unbuilt stretch; false if there is none. An error is
// the disk's and ends the node.
func (l *Log) BuildOne() (bool, error) {
	l.building <- struct{}{}
	defer func() { <-l.building }()
	if err := l.sweep(); err != nil {
		return false, err
	}
	s := l.oldestUnbuilt()
	if s == nil {
		return false, nil
	}
	f, err := l.build(s)
	if err != nil {
		return false, err
	}
	var deviating []*file
	l.mu.Lock()
	if slices.Contains(l.view.Load().stretches, s) {
		delete(l.stray, f.meta.Name())
		l.change(func(v *view) {
			s.built = f
			deviating = v.settle()
		})
	} else { // a Restore came in between; the file may yet be named by an edit
		l.stray[f.meta.Name()] = true
	}
	l.mu.Unlock()
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
	return true, nil
}

func (l *Log) oldestUnbuilt() *stretch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.view.Load().stretches {
		if s.closed && s.built == nil {
			return s
		}
	}
	return nil
}

// sweep removes the files that edits have removed, or leaves that to their last
// reader.
func (l *Log) sweep() error {
	l.mu.Lock()
	garbage := l.garbage
	l.garbage = nil
	l.mu.Unlock()
	var errs []error
	for _, f := range garbage {
		errs = append(errs, f.drop())
	}
	return errors.Join(errs...)
}

// build writes the file of a closed stretch. Where a file with its range is here
// already, as after a restart, the bytes are only hashed first: if that file is
// the one, nothing is written.
func (l *Log) build(s *stretch) (*file, error) {
	p := newLayout(s, l.o.Topics)
	if l.hasRange(s.first, s.last()) {
		meta, _, err := p.write(io.Discard)
		if err != nil {
			return nil, err
		}
		if f := l.take(meta); f != nil {
			return f, nil
		}
	}
	var meta FileMeta
	var f *format.File
	temp := l.path(fmt.Sprintf("%020d-%020d%s%s", s.first, s.last(), segmentSuffix, disk.TempSuffix))
	err := writeSynced(l.o.FS, temp, func(w io.Writer) (err error) {
		meta, f, err = p.write(w)
		return err
	})
	if err != nil {
		return nil, err
	}
	final := l.path(meta.Name())
	if err := l.o.FS.Rename(temp, final); err != nil {
		return nil, err
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return nil, err
	}
	f.Path = final
	return &file{File: f, fs: l.o.FS, meta: meta}, nil
}

func (l *Log) hasRange(first, last uint64) bool {
	prefix := fmt.Sprintf("%020d-%020d-", first, last)
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.stray {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// writeBuffer is how many bytes go to the disk in one call.
const writeBuffer = 256 << 10

// writeSynced makes a durable file whose name is not yet durable. What is left of
// it after an error is removed by Open.
func writeSynced(fsys disk.FS, path string, write func(io.Writer) error) (err error) {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, writeBuffer)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// layout is the plan of a file: the order of the records of a closed stretch.
// Nothing is copied: a counting sort by partition over places in memory.
type layout struct {
	s          *stretch
	partitions []uint32 // in tree order
	counts     []uint32 // by partition id
	order      []place  // of the records, partition by partition
	volumes    []format.TopicVolume
	times      format.Times
}

func newLayout(s *stretch, t *topic.Table) *layout {
	p := &layout{s: s, counts: make([]uint32, t.Partitions())}
	places := p.scan(t)
	slices.SortFunc(p.partitions, func(a, b uint32) int { return format.CompareTree(t.PartitionName(a), t.PartitionName(b)) })
	slices.SortFunc(p.volumes, func(a, b format.TopicVolume) int { return format.CompareTree(a.Name, b.Name) })
	next := make([]uint32, len(p.counts)) // where the partition's next record goes
	at := uint32(0)
	for _, id := range p.partitions {
		next[id] = at
		at += p.counts[id]
	}
	p.order = make([]place, s.count)
	for i, id := range s.partitions {
		p.order[next[id]] = places[i]
		next[id]++
	}
	return p
}

// scan walks the stretch in order of the stream: it counts, and returns where the
// records are.
func (p *layout) scan(t *topic.Table) []place {
	places := make([]place, p.s.count)
	volume := make([]uint32, t.Len()) // index in p.volumes + 1
	var at place
	for i, id := range p.s.partitions {
		b, next := p.s.at(at)
		places[i], at = place{next.chunk, next.off - uint32(len(b))}, next
		if p.counts[id]++; p.counts[id] == 1 {
			p.partitions = append(p.partitions, id)
		}
		r := message.Record(b)
		if volume[r.Topic()] == 0 {
			p.volumes = append(p.volumes, format.TopicVolume{Name: t.Name(r.Topic()), ID: r.Topic(), First: r.Seq()})
			volume[r.Topic()] = uint32(len(p.volumes))
		}
		v := &p.volumes[volume[r.Topic()]-1]
		v.Messages++
		v.Bytes += uint64(len(b))
		v.Last = r.Seq()
		p.times.Add(r.Time())
	}
	return places
}

// write writes the file and describes it.
func (p *layout) write(to io.Writer) (FileMeta, *format.File, error) {
	h := format.Header{First: p.s.first, Last: p.s.last(), FirstTime: p.s.firstTime, LastTime: p.s.lastTime}
	w := format.NewWriter(to, h)
	order := p.order
	for _, id := range p.partitions {
		for range p.counts[id] {
			b, _ := p.s.at(order[0])
			order = order[1:]
			w.Add(id, b)
		}
	}
	sum, err := w.Finish(p.volumes, &p.times)
	return FileMeta{
		Kind: KindSegment, First: h.First, Last: h.Last, FirstTime: h.FirstTime, LastTime: h.LastTime,
		Messages: p.s.count, Bytes: sum.Bytes, Hash: sum.Hash, Sum: sum.File.Trailer.Sum,
	}, sum.File, err
}
