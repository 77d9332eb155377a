package stores

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"chorale/bench/meter"
	"chorale/message"
	"chorale/segments"
	"chorale/segments/format"
	"chorale/topic"
)

// readBytes is how much a reader takes at a time, about what a node sends at once.
const readBytes = 256 << 10

// Run fills a history, compacts it, and measures.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	h, err := newHistory(o)
	if err != nil {
		return nil, err
	}
	defer h.remove()
	if err := h.fill(ctx); err != nil {
		return nil, err
	}
	chosen, err := h.choose(o.Readers)
	if err != nil {
		return nil, err
	}
	all, err := topic.ParseFilters("**")
	if err != nil {
		return nil, err
	}
	everything := []subtree{{filter: "**", messages: h.next - 1, filters: all}}
	var m measured
	for n := range o.Rounds {
		o.Step(fmt.Sprintf("round %d of %d", n+1, o.Rounds))
		// Each way comes right behind a pass over everything, which leaves the caches
		// of the history and of the processor to others.
		for _, w := range []struct {
			into *[]pass
			work func() (pass, error)
		}{
			{&m.floor, h.bare},
			{&m.all, func() (pass, error) { return h.recover(everything, nil) }},
			{&m.filtered, func() (pass, error) { return h.recover(everything, chosen[0].filters) }},
			{&m.one, func() (pass, error) { return h.recover(chosen[:1], nil) }},
			{&m.each, func() (pass, error) { return h.recoverEach(chosen) }},
			{nil, func() (pass, error) { return h.recover(everything, nil) }},
			{&m.many, func() (pass, error) { return h.recover(chosen, nil) }},
		} {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p, err := w.work()
			if err != nil {
				return nil, err
			}
			if w.into != nil {
				*w.into = append(*w.into, p)
			}
		}
	}
	return h.report(chosen, m)
}

// measured is what each way took, by round.
type measured struct{ floor, all, filtered, one, each, many []pass }

// pass is one recovery by all its readers at once.
type pass struct {
	meter.Cost       // CPU is the process's
	delivered  int64 // messages
	bytes      int64 // of delivered records
	read       int64 // bytes from files
	err        error
}

// recover lets every subtree be read by a reader of its own, all at once, and counts
// what comes, or, if there is a filter, what of it the filter lets pass.
func (h *history) recover(of []subtree, filter *topic.Filters) (pass, error) {
	passes := make([]pass, len(of))
	var sum pass
	start := time.Now()
	sum.CPU = meter.Process(func() {
		var wg sync.WaitGroup
		for i, s := range of {
			wg.Go(func() { passes[i] = h.read(s.filters, filter) })
		}
		wg.Wait()
	})
	sum.Wall = time.Since(start)
	for i, p := range passes {
		if p.err == nil && filter == nil && uint64(p.delivered) != of[i].messages {
			p.err = fmt.Errorf("%s delivered %d messages of %d", of[i].filter, p.delivered, of[i].messages)
		}
		if p.err != nil {
			return sum, p.err
		}
		sum.delivered += p.delivered
		sum.bytes += p.bytes
		sum.read += p.read
	}
	return sum, nil
}

// recoverEach reads the same subtrees, one after the other.
func (h *history) recoverEach(of []subtree) (pass, error) {
	var sum pass
	for i := range of {
		p, err := h.recover(of[i:i+1], nil)
		if err != nil {
			return sum, err
		}
		sum.CPU += p.CPU
		sum.Wall += p.Wall
		sum.delivered += p.delivered
		sum.bytes += p.bytes
		sum.read += p.read
	}
	return sum, nil
}

func (h *history) read(want, filter *topic.Filters) (p pass) {
	r := h.log.NewReader(topic.NewSelection(h.topics, want), 0)
	defer r.Close()
	var selection *topic.Selection
	if filter != nil {
		selection = topic.NewSelection(h.topics, filter)
	}
	buf := make([]byte, 0, readBytes)
	for at := uint64(0); at < h.log.End(); {
		out, progress, err := r.Read(buf, readBytes)
		if err != nil {
			p.err = err
			return p
		}
		at = progress.Scanned
		if selection == nil {
			p.delivered += int64(progress.Count)
			p.bytes += int64(len(out))
			continue
		}
		for len(out) > 0 {
			record := message.Record(out[:message.Record(out).Size()])
			stride := message.Stride(len(record))
			if selection.Match(record.Topic()) {
				p.delivered++
				p.bytes += int64(stride)
			}
			out = out[stride:]
		}
	}
	p.read = r.BytesRead()
	return p
}

// bare is the floor: the blocks of all files are read, checked and unpacked, one after
// the other, and their records looked at by nobody.
func (h *history) bare() (pass, error) {
	var p pass
	start := time.Now()
	p.CPU = meter.Process(func() {
		for _, f := range h.log.Manifest().Files {
			if p.err = h.bareFile(f, &p); p.err != nil {
				return
			}
		}
	})
	p.Wall = time.Since(start)
	return p, p.err
}

// bareRun is how many bytes of neighbouring blocks the bare loop reads at once.
const bareRun = 256 << 10

func (h *history) bareFile(meta segments.FileMeta, p *pass) error {
	name := filepath.Join(h.root, "data", meta.Name())
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := format.Open(in, meta.Bytes, name)
	if err != nil {
		return err
	}
	p.delivered += int64(meta.Messages)
	if meta.Kind == segments.KindSegment {
		return bareSegment(f, in, p)
	}
	x, err := f.StoreIndex(in)
	if err != nil {
		return err
	}
	var buf []byte
	for from := 0; from < len(x.Blocks); {
		to, size := from, 0
		for to < len(x.Blocks) && (to == from || size+int(x.Blocks[to].Stored) <= bareRun) {
			size += int(x.Blocks[to].Stored)
			to++
		}
		buf = append(buf[:0], make([]byte, size)...)
		if err := f.ReadStored(in, x.Blocks[from:to], buf); err != nil {
			return err
		}
		p.read += int64(size)
		for _, b := range x.Blocks[from:to] {
			at := b.Off - x.Blocks[from].Off
			records, err := f.Unpack(b, buf[at:at+int64(b.Stored)])
			if err != nil {
				return err
			}
			p.bytes += int64(len(records))
		}
		from = to
	}
	return nil
}

func bareSegment(f *format.File, in io.ReaderAt, p *pass) error {
	x, err := f.Index(in)
	if err != nil {
		return err
	}
	var buf []byte
	for i, b := range x.Blocks {
		buf = append(buf[:0], make([]byte, b.Bytes)...)
		if err := f.ReadBlocks(in, x.Blocks[i:i+1], buf); err != nil {
			return err
		}
		p.read += int64(b.Bytes)
		p.bytes += int64(b.Bytes)
	}
	return nil
}
