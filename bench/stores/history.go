// Package stores measures what the layout of the history on disk is worth: recovery
// of a subtree from compacted stores beside reading everything and filtering, and
// recovery of everything beside the bare work on the same files.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"chorale/compactor"
	"chorale/disk"
	"chorale/internal/tsv"
	"chorale/message"
	"chorale/segments"
	"chorale/topic"
)

// Options of a run.
type Options struct {
	// Data is a sample stream; it is repeated, each time later than before, until
	// there are Messages of them. Payloads are cut at MessageBytes.
	Data         string
	Messages     uint64
	MessageBytes int64
	// Dir is the folder in which one for the files is made, and removed again; "" is
	// the system's for temporary files.
	Dir string
	// SegmentBytes is the size at which segments are cut, in bytes of records.
	SegmentBytes int64
	// Selectivity is the share of the messages that a reader asks for.
	Selectivity float64
	// Readers is how many recover different subtrees at once.
	Readers int
	// Rounds is how often everything is measured; the medians count.
	Rounds int
	// Step is told what is being done; nil means nobody listens.
	Step func(what string)
}

// DefaultOptions is what the figures in docs/benchmarks.md are taken with.
func DefaultOptions() Options {
	return Options{Messages: 3_000_000, MessageBytes: 256, SegmentBytes: 16 << 20, Selectivity: 0.01, Readers: 32, Rounds: 5}
}

func (o Options) validate() error {
	switch {
	case o.Data == "":
		return errors.New("no stream: --data names a sample stream")
	case o.Messages < 1000 || o.MessageBytes < 1 || o.SegmentBytes < 64<<10:
		return fmt.Errorf("%d messages of up to %d bytes in segments of %d: at least 1000, 1 and 65536 are needed", o.Messages, o.MessageBytes, o.SegmentBytes)
	case o.Selectivity <= 0 || o.Selectivity >= 1:
		return fmt.Errorf("a selectivity of %g: above 0 and below 1 is possible", o.Selectivity)
	case o.Readers < 1 || o.Rounds < 1:
		return fmt.Errorf("%d readers, %d rounds: at least 1 of each is needed", o.Readers, o.Rounds)
	}
	return nil
}

// history is a node's history on a real disk, without the node.
type history struct {
	Options
	root   string
	topics *topic.Table
	log    *segments.Log
	last   []uint64 // seq of each topic's last message, by id
	counts []uint64 // messages of each topic, by id
	next   uint64   // seq

	payloadBytes, segmentBytes, writtenBytes int64
	plans                                    int
}

func newHistory(o Options) (*history, error) {
	root, err := os.MkdirTemp(o.Dir, "chorale-bench-stores-")
	if err != nil {
		return nil, err
	}
	h := &history{Options: o, root: root, topics: topic.NewTable(), next: 1}
	h.log, err = segments.Open(segments.Options{FS: disk.OS(root), Dir: "data", Topics: h.topics, PendingStretches: 2})
	if err != nil {
		h.remove()
		return nil, err
	}
	h.log.SetTarget(o.SegmentBytes)
	return h, nil
}

func (h *history) remove() { _ = os.RemoveAll(h.root) }

// fill appends the stream until there are enough messages. As a node does it, it
// compacts as it goes.
func (h *history) fill(ctx context.Context) error {
	for shift := int64(0); h.next <= h.Messages; {
		before := h.next
		span, err := h.repeat(ctx, shift)
		if err != nil {
			return err
		}
		if h.next == before {
			return fmt.Errorf("%s has no messages", h.Data)
		}
		shift += span
	}
	h.log.Publish()
	if err := h.log.Cut(); err != nil {
		return err
	}
	return h.settle(ctx)
}

// repeat appends the stream once, shifted in time, and returns how much time it spans.
func (h *history) repeat(ctx context.Context, shift int64) (int64, error) {
	f, err := os.Open(h.Data)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines, err := tsv.NewReader(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", h.Data, err)
	}
	defer lines.Close()
	var payload []byte
	first, latest := int64(-1), int64(0)
	for h.next <= h.Messages {
		line, err := lines.Next()
		if err == io.EOF {
			break
		}
		if bad := (*tsv.LineError)(nil); errors.As(err, &bad) {
			continue
		} else if err != nil {
			return 0, fmt.Errorf("%s: %w", h.Data, err)
		}
		if first < 0 {
			first, latest = line.Time, line.Time
		}
		latest = max(latest, line.Time) // the stream's time never goes back
		payload = line.Payload(payload[:0], h.MessageBytes)
		if err := h.append(ctx, line.Topic, payload, (latest+shift)*int64(time.Second)); err != nil {
			return 0, err
		}
	}
	return latest - first + 1, nil
}

// entryMessages is about how many messages one entry of the log brings: segments are
// cut, and compaction is looked at, at the end of one.
const entryMessages = 256

func (h *history) append(ctx context.Context, name string, payload []byte, at int64) error {
	id, fresh := h.topics.Intern([]byte(name))
	if fresh {
		h.last, h.counts = append(h.last, 0), append(h.counts, 0)
	}
	r := message.NewRecord(message.Draft{Payload: payload}, id, h.next, h.last[id], at)
	h.log.Append(h.topics.Partition(id), r)
	h.last[id] = h.next
	h.counts[id]++
	h.payloadBytes += int64(len(payload))
	h.next++
	if h.next%entryMessages != 0 {
		return nil
	}
	h.log.Publish()
	if err := h.log.CutIfFull(); err != nil {
		return err
	}
	if len(h.log.Pending()) > 1 {
		return h.settle(ctx)
	}
	return nil
}

// settle writes what was cut to files and compacts until nothing is due.
func (h *history) settle(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = h.log.BuildOne(); err != nil {
			return err
		}
	}
	added := h.log.Proposals()
	for _, f := range added {
		h.segmentBytes += f.Bytes
	}
	if err := h.install(segments.Edit{Add: added}); err != nil {
		return err
	}
	for {
		p, due := compactor.Choose(compactor.Ranges(h.log.Manifest()), compactor.DefaultSettings())
		if !due {
			return nil
		}
		h.Step(fmt.Sprintf("%d of %d messages, compacting %d files", h.next-1, h.Messages, len(p.Inputs)))
		files, err := compactor.Build(ctx, h.log, p, nil, func(ctx context.Context, _ int64) error { return ctx.Err() })
		if err != nil {
			return err
		}
		h.plans++
		if err := h.install(segments.Edit{Remove: p.Inputs, Add: files}); err != nil {
			return err
		}
	}
}

func (h *history) install(e segments.Edit) error {
	if len(e.Add) == 0 {
		return nil
	}
	for _, f := range e.Add {
		h.writtenBytes += f.Bytes
	}
	refused, mismatch := h.log.Install(e)
	return errors.Join(refused, mismatch)
}
