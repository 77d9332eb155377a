package segments

import (
	"fmt"
	"slices"

	"chorale/message"
	"chorale/segments/arena"
)

// maxTarget bounds the target of the cut, so that positions within a file and its
// seqs fit 32 bits.
const maxTarget = 4 << 30

// SetTarget sets the size in bytes of padded records at which a stretch is cut;
// the same on all nodes, from the log. 0 means never; at most 4 GiB count.
func (l *Log) SetTarget(bytes int64) { l.target = min(bytes, maxTarget) }

// Append copies a stamped record to the open stretch; seqs rise by one. Readers
// see it after Publish.
func (l *Log) Append(partition uint32, r message.Record) {
	if l.open == nil {
		l.stretches++
		l.open = &stretch{Arena: arena.New(l.next, l.target), serial: l.stretches}
		l.mu.Lock()
		l.change(func(v *view) { v.stretches = append(v.stretches, l.open) })
		l.mu.Unlock()
	}
	l.open.Append(partition, r)
	l.next++
}

// Publish makes what was appended visible to readers.
func (l *Log) Publish() { l.end.Store(l.next - 1) }

// CutIfFull ends the open stretch if it has reached the target: called at the end
// of every entry, so the cut depends on the log alone. An error is the disk's and
// ends the node.
func (l *Log) CutIfFull() error {
	if l.open == nil || l.target == 0 || l.open.Bytes() < l.target {
		return nil
	}
	return l.Cut()
}

// Cut ends the open stretch, if there is one, whatever its size. If too many
// stretches wait for Build it builds some itself. An error is the disk's and ends
// the node.
func (l *Log) Cut() error {
	if l.open == nil {
		return nil
	}
	l.mu.Lock()
	l.open.closed = true
	l.mu.Unlock()
	l.open = nil
	l.awake()
	for len(l.due()) > l.o.PendingStretches {
		if _, err := l.BuildOne(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Install applies a committed edit. refused is data: it follows from the manifest
// and the newest seq, which are the same on all nodes. mismatch says that this
// node had built a file of the edit with other bytes; its own is put aside, and
// the cluster's becomes missing. As long as files of a layer are missing, what they
// replace is read, if that is here.
func (l *Log) Install(e Edit) (refused, mismatch error) {
	next, err := l.Manifest().Apply(e)
	if err == nil && next.End() >= l.next {
		err = fmt.Errorf("the edit names messages up to %d, the newest is %d", next.End(), l.next-1)
	}
	if err != nil {
		return err, nil
	}
	here := l.find(e.Add)
	var deviating []*file
	l.mu.Lock()
	l.change(func(v *view) {
		l.replace(v, next, here)
		deviating = append(l.settle(v), l.deviating(e)...)
	})
	l.mu.Unlock()
	l.awake()
	return nil, l.discard(deviating)
}

// Restore empties the log and sets manifest and next seq: of the first message
// that will be appended. The caller then appends the snapshot's stretches,
// cutting (Cut) where they were closed. Files that no manifest has named are left
// alone.
func (l *Log) Restore(m Manifest, next uint64) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("%w: manifest: %w", ErrCorrupt, err)
	}
	if next == 0 || next > m.End()+1 {
		return fmt.Errorf("%w: manifest ends at %d, the first message behind it is %d", ErrCorrupt, m.End(), next)
	}
	files := Manifest{Files: slices.Clone(m.Files)}
	here := l.find(files.Files)
	l.open, l.next = nil, next
	var deviating []*file
	l.mu.Lock()
	l.change(func(v *view) {
		built := v.built()
		for _, f := range built {
			here[f.Meta.Hash] = f
		}
		v.stretches = nil
		l.replace(v, files, here)
		for _, f := range built {
			if files.Index(f.Meta) < 0 {
				l.stray[f.Meta.Name()] = true // the same stretch may come again
			}
		}
		deviating = l.settle(v)
	})
	l.mu.Unlock()
	l.awake()
	l.end.Store(next - 1)
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
	return nil
}

// Stretch is a part of the stream that is still in memory. Its bytes are
// immutable.
type Stretch struct {
	First, Last uint64
	Closed      bool     // cut, waiting for its file or its edit
	Chunks      [][]byte // padded records
}

// Pending captures what a snapshot must carry: all stretches in memory,
// ascending. On the applying goroutine; cheap, copies nothing.
func (l *Log) Pending() []Stretch {
	var out []Stretch
	for _, s := range l.view.Load().stretches {
		out = append(out, Stretch{First: s.First(), Last: s.Last(), Closed: s.closed, Chunks: s.Records()})
	}
	return out
}
