package segments

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"chorale/message"
	"chorale/segments/format"
	"chorale/segments/layer"
	"chorale/segments/manifest"
	"chorale/topic"
)

// Volumes sums what the files with these hashes hold of each topic: bytes are those
// of the padded records, whatever the kind of the file. The result is in tree order
// (topic.Compare), its First and Last are seqs over all of the files. Errors:
// ErrNotHere for a file that is not in the manifest or not on this node, ErrCorrupt,
// the disk's. Any goroutine.
func (l *Log) Volumes(inputs []Hash) ([]format.TopicVolume, error) {
	sums := make(map[uint32]*format.TopicVolume)
	for _, h := range inputs {
		_, topics, err := l.topicsOf(h)
		if err != nil {
			return nil, err
		}
		for _, t := range topics {
			sum := sums[t.ID]
			if sum == nil {
				sums[t.ID] = &t
				continue
			}
			sum.Messages += t.Messages
			sum.Bytes += t.Bytes
			sum.First, sum.Last = min(sum.First, t.First), max(sum.Last, t.Last)
		}
	}
	out := make([]format.TopicVolume, 0, len(sums))
	for _, sum := range sums {
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b format.TopicVolume) int { return topic.Compare(a.Name, b.Name) })
	return out, nil
}

// topicsOf reads the topic table of a live file, and tells its header.
func (l *Log) topicsOf(h Hash) (format.Header, []format.TopicVolume, error) {
	f, handle, err := l.acquire(h)
	if err != nil {
		return format.Header{}, nil, err
	}
	topics, err := f.Topics(handle)
	if errors.Is(err, ErrCorrupt) {
		l.lose(f, err)
	}
	// What only readers want is not worth an error: the file is immutable.
	_ = f.Release()
	return f.Header, topics, err
}

// pins are a view whose files stay on the disk.
type pins struct {
	view  *view
	files []*file // held
}

func (p *pins) release() {
	for _, f := range p.files {
		_ = f.Unhold()
	}
	p.files = nil
}

// NewRangeReader reads everything from seq first to last, which must be in files or
// in memory here: at its end Progress.Scanned is last, and Read gives nothing more.
// What it reads stays on the disk until Close, whatever edits do meanwhile. Errors:
// ErrExpired, ErrNotHere. Any goroutine; the reader is for one.
func (l *Log) NewRangeReader(first, last uint64) (*Reader, error) {
	all, err := topic.ParseFilters("**")
	if err != nil {
		panic(fmt.Sprintf("segments: the filter for everything: %v", err))
	}
	r := &Reader{log: l, q: l.scans.NewQuery(topic.NewSelection(l.o.Topics, all)), pos: first - 1, last: last}
	for {
		end := l.End()
		p := &pins{view: l.view.Load()}
		switch oldest := p.view.manifest.Oldest(); {
		case first < oldest:
			return nil, fmt.Errorf("%w: position %d, the oldest message is %d", ErrExpired, first, oldest)
		case last > end:
			return nil, fmt.Errorf("%w: messages %d to %d, the newest is %d", ErrNotHere, first, last, end)
		}
		if p.hold(first, last) {
			r.pins = p
			return r, nil
		}
		p.release() // a newer view has let files go
	}
}

// hold keeps the files with these seqs. Of one that is not here Read will tell.
func (p *pins) hold(first, last uint64) bool {
	files := slices.Clone(p.view.files)
	for _, x := range p.view.kept {
		files = append(files, x.files...)
	}
	for _, f := range files {
		if f == nil || f.Meta.Last < first || f.Meta.First > last {
			continue
		}
		if f.Hold() != nil {
			return false
		}
		p.files = append(p.files, f)
	}
	return true
}

// StoreBuilder writes a layer: the stores of a range. For one goroutine, which may
// take its time between two calls.
//
// Its memory is at most two chapters, or 64 KiB a store without them, some bytes a block
// and a topic, and a spool of 64 MiB for finished blocks, which goes on in a file; it has
// two files open at most.
// The bytes of the stores depend on the records, the range and the assignment alone.
type StoreBuilder struct {
	log         *Log
	first, last uint64
	builder     *layer.Builder
}

// NewStoreBuilder starts the layer of seqs first to last. storeOf says which store,
// from 0 to stores-1, takes a topic; it must always answer the same. A store without
// messages gets no file. level goes into the files' descriptions (FileMeta.Level), chapter
// into their headers (format.Header). The error is the disk's.
func (l *Log) NewStoreBuilder(first, last uint64, firstTime, lastTime int64, level uint8, chapter uint32, stores int, storeOf func(topicID uint32) int) (*StoreBuilder, error) {
	return &StoreBuilder{log: l, first: first, last: last, builder: layer.New(layer.Options{
		FS: l.o.FS, Dir: l.o.Dir, First: first, Last: last, FirstTime: firstTime, LastTime: lastTime, Level: level, Chapter: chapter, Claim: l.folder.Claim,
		Stores: stores, StoreOf: storeOf, Name: l.o.Topics.Name, SpoolMemory: layer.SpoolMemory,
	})}, nil
}

// Add copies the next record of the range: seqs ascend from first to last, which is one of
// them; those that are left out have gone. The error is the disk's; only Abort may follow it.
func (b *StoreBuilder) Add(r message.Record) error { return b.builder.Add(r) }

// Finish writes the stores and describes them, in the order of the manifest. All
// records of the range were added. The files are durable then, and the Log holds them
// until an Install names them or Tidy removes them; after a restart they are found
// again: a file that is here already is hashed, not written. progress, if not nil,
// is told the bytes of each finished file; its error ends the work, as that of the
// disk does, and only Abort may follow.
func (b *StoreBuilder) Finish(progress func(bytes int64) error) ([]FileMeta, error) {
	l := b.log
	var files []*file // that no edit has named yet
	var metas []FileMeta
	err := b.builder.Finish(l.finder(b.first, b.last, &files), func(m FileMeta, f *format.File) error {
		metas = append(metas, m)
		if f != nil {
			files = append(files, l.folder.New(f, m))
		}
		if progress == nil {
			return nil
		}
		return progress(m.Bytes)
	})
	if err == nil {
		err = l.o.FS.SyncDir(l.o.Dir)
	}
	if err != nil {
		var deviating []*file
		l.mu.Lock()
		for _, f := range files {
			deviating = append(deviating, l.admit(f)...)
		}
		l.mu.Unlock()
		return nil, errors.Join(err, l.discard(deviating))
	}
	b.Abort() // the spool
	manifest.Sort(metas)
	l.settleStores(files)
	return metas, nil
}

// finder reports whether a store of the range is here: live, or as what a former life
// has left, which is added to files. It is nil if there can be none.
func (l *Log) finder(first, last uint64, files *[]*file) func(FileMeta) bool {
	v := l.view.Load()
	if i := v.manifest.Find(first); !l.hasRange(first, last) && (i == len(v.files) || v.manifest.Files[i].Last != last) {
		return nil
	}
	return func(m FileMeta) bool {
		if l.live(m.First, m.Hash) {
			return true
		}
		f := l.take(m)
		if f != nil {
			*files = append(*files, f)
		}
		return f != nil
	}
}

// live reports whether the manifest has the file, at whatever level, and it is here.
func (l *Log) live(first uint64, h Hash) bool {
	v := l.view.Load()
	i := v.manifest.Find(first)
	if i == len(v.files) {
		return false
	}
	return slices.ContainsFunc(v.files[i:i+v.manifest.Layer(i)], func(f *file) bool { return f != nil && f.Meta.Hash == h })
}

// settleStores takes durable stores in, which an edit may have named already.
func (l *Log) settleStores(files []*file) {
	var deviating []*file
	l.mu.Lock()
	for _, f := range files {
		delete(l.stray, f.Meta.Name())
	}
	l.change(func(v *view) {
		l.built = append(l.built, files...)
		deviating = l.settle(v)
	})
	l.mu.Unlock()
	l.awake()
	if err := l.discard(deviating); err != nil {
		l.o.Warn(err)
	}
}

// Abort gives up what is not finished. After Finish it does nothing, so it can be
// deferred. What it cannot remove Open will.
func (b *StoreBuilder) Abort() { b.builder.Abort() }

// Tidy removes the data files here that neither a manifest nor a reader needs: those
// whose seqs lie in complete ranges of the manifest here, or before its start.
// Outputs of seqs first to last are spared: the active plan's; 0, 0 for none. What was
// put aside goes too, once the manifest has no file of its kind and range any more. To be
// called when a node has caught up with its log after a start, and when a plan ends.
// The error is the disk's. Any goroutine.
func (l *Log) Tidy(first, last uint64) error {
	var names []string
	var files []*file
	l.mu.Lock()
	v := l.view.Load()
	for name := range l.stray {
		a, b, _ := manifest.RangeOf(name)
		if (a != first || b != last) && v.whole(a, b) {
			names = append(names, name)
			delete(l.stray, name)
		}
	}
	for name := range l.aside {
		if a, b, _ := manifest.RangeOf(name); !v.manifest.HasLike(name) && v.whole(a, b) {
			names = append(names, name+damagedSuffix)
			delete(l.aside, name)
		}
	}
	l.built = slices.DeleteFunc(l.built, func(f *file) bool {
		drop := f.Meta.First != first || f.Meta.Last != last
		if drop {
			files = append(files, f)
		}
		return drop
	})
	l.mu.Unlock()
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Drop())
	}
	slices.Sort(names)
	for _, name := range names {
		if err := l.o.FS.Remove(l.path(name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
