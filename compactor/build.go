package compactor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"chorale/message"
	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"
)

// ErrImpossible marks a plan that cannot be built, here or anywhere: the log should
// be rid of it.
var ErrImpossible = errors.New("the plan cannot be built")

// Pace holds the work back: it returns when so many further bytes may be read or
// written, or with an error, which ends the work.
type Pace func(ctx context.Context, bytes int64) error

// readBytes is what one step of a build reads.
const readBytes = 1 << 20

// Ranges are the ranges of a manifest, as Choose wants them.
func Ranges(m segments.Manifest) []Range {
	var out []Range
	for _, r := range m.Ranges() {
		x := Range{Level: int(r.Files[0].Level), Messages: r.Last - r.First + 1, Span: r.Files[0].LastTime - r.Files[0].FirstTime}
		for _, f := range r.Files {
			x.Bytes += f.Bytes
			x.Files = append(x.Files, f.Hash)
		}
		out = append(out, x)
	}
	return out
}

// Build writes the stores of a plan from the files of the history and describes
// them as the edit wants them; they are durable then. What it writes depends on the
// plan, on the floors and on the messages that are not below them alone: those are left out,
// but for the last one of the range, so that no range is without a file. It may end by ctx or by pace at any point; the next
// build begins again, and writes nothing that is here already.
//
// Errors: those of ctx and pace; ErrImpossible; segments.ErrNotHere and ErrCorrupt
// for an input that must be repaired first; otherwise the disk's. One build of a
// history at a time.
func Build(ctx context.Context, history *segments.Log, p Plan, floors *retention.Floors, pace Pace) ([]segments.FileMeta, error) {
	l, err := layerOf(history.Manifest(), p)
	if err != nil {
		return nil, err
	}
	// The reader holds the inputs: an edit may come at any time.
	r, err := history.NewRangeReader(l.first, l.last)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	volumes, err := history.Volumes(p.Inputs)
	if err != nil {
		return nil, err
	}
	l.gone = make(map[uint32]uint64)
	volumes = slices.DeleteFunc(volumes, func(v format.TopicVolume) bool {
		l.gone[v.ID] = floors.Of(v.Name)
		return v.Last < l.gone[v.ID] && v.Last != l.last
	})
	stores, storeOf := assign(volumes, int(p.Stores))
	b, err := history.NewStoreBuilder(l.first, l.last, l.firstTime, l.lastTime, l.level, p.Chapter, stores, storeOf)
	if err != nil {
		return nil, err
	}
	defer b.Abort()
	if err := l.copy(ctx, b, r, pace); err != nil {
		return nil, err
	}
	return b.Finish(func(bytes int64) error { return pace(ctx, bytes) })
}

// layer is the range that a plan makes.
type layer struct {
	first, last         uint64
	firstTime, lastTime int64
	level               uint8
	gone                map[uint32]uint64 // by topic: all before it has gone
}

// layerOf finds the inputs of a plan in the manifest.
func layerOf(m segments.Manifest, p Plan) (layer, error) {
	start := 0
	for start < len(m.Files) && len(p.Inputs) > 0 && m.Files[start].Hash != p.Inputs[0] {
		start++
	}
	end := start + len(p.Inputs)
	if end > len(m.Files) || end == start || p.Stores == 0 {
		return layer{}, fmt.Errorf("%w: %d inputs and %d stores; the manifest has other files", ErrImpossible, len(p.Inputs), p.Stores)
	}
	first, last := m.Files[start], m.Files[end-1]
	l := layer{first: first.First, last: last.Last, firstTime: first.FirstTime, lastTime: last.LastTime}
	for i, f := range m.Files[start:end] {
		if f.Hash != p.Inputs[i] {
			return l, fmt.Errorf("%w: input %d is %s, the manifest has %s there", ErrImpossible, i, p.Inputs[i], f.Hash)
		}
		l.level = max(l.level, f.Level+1)
	}
	return l, nil
}

// assign splits the topics over at most budget stores. The function that it returns
// is for the ids of the volumes alone.
func assign(volumes []format.TopicVolume, budget int) (stores int, storeOf func(id uint32) int) {
	in := make([]Volume, len(volumes))
	ids := make(map[string]uint32, len(volumes))
	highest := uint32(0)
	for i, v := range volumes {
		in[i] = Volume{Topic: v.Name, Bytes: v.Bytes, Messages: v.Messages}
		ids[v.Name] = v.ID
		highest = max(highest, v.ID)
	}
	tree := NewTree(in)
	split := Adaptive(tree, budget)
	stores, of := split.Stores, make([]int32, highest+1)
	for i, v := range tree.Topics {
		of[ids[v.Topic]] = split.StoreOf[i]
	}
	return stores, func(id uint32) int { return int(of[id]) }
}

// copy hands every record of the range to the builder.
func (l layer) copy(ctx context.Context, b *segments.StoreBuilder, r *segments.Reader, pace Pace) error {
	var buf []byte
	for done := l.first - 1; done < l.last; {
		var p message.Progress
		var err error
		if buf, p, err = r.Read(buf[:0], readBytes); err != nil {
			return err
		}
		if p.Scanned == done {
			return fmt.Errorf("%w: the files of seqs %d to %d hold nothing behind %d", ErrImpossible, l.first, l.last, done)
		}
		done = p.Scanned
		for rest := buf; len(rest) > 0; {
			record := message.Record(rest[:message.Record(rest).Size()])
			if record.Seq() >= l.gone[record.Topic()] || record.Seq() == l.last {
				if err := b.Add(record); err != nil {
					return err
				}
			}
			rest = rest[message.Stride(len(record)):]
		}
		if err := pace(ctx, int64(len(buf))); err != nil {
			return err
		}
	}
	return nil
}
