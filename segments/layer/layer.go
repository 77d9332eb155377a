// Package layer builds the stores of a range of the stream, in one pass over its
// messages.
//
// Thousands of stores grow at a time, but none of them has a file open: their blocks
// go to a spool as they are complete, one behind the other, and are copied from there
// to the files one store at a time. So a builder has two files open at most, and
// writes nothing but long runs.
package layer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/chapter"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// Options of a builder.
type Options struct {
	FS                  disk.FS
	Dir                 string
	First, Last         uint64 // the range
	FirstTime, LastTime int64
	Level               uint8  // of the files
	Chapter             uint32 // bytes of their chapters; see format.Header
	Stores              int
	StoreOf             func(topic uint32) int // 0 to Stores-1, always the same
	Name                func(topic uint32) string
	Claim               func(path string) // called before a file gets its name
	SpoolMemory         int               // bytes of blocks that are kept in memory
}

// Builder builds a layer. For one goroutine.
type Builder struct {
	o      Options
	packer *format.Packer
	stores []*store // nil where nothing was added
	cutter chapter.Cutter
	next   uint64
	spool  *spool
}

// store is one that grows.
type store struct {
	*format.StoreWriter
	places []place // of its blocks in the spool
}

// New makes a builder that has written nothing yet.
func New(o Options) *Builder {
	return &Builder{
		o: o, packer: format.NewPacker(), stores: make([]*store, o.Stores), cutter: format.Chapters(o.Chapter), next: o.First,
		spool: newSpool(o.FS, path.Join(o.Dir, fmt.Sprintf("%020d-%020d.spool%s", o.First, o.Last, disk.TempSuffix)), o.SpoolMemory),
	}
}

// Add copies the next record of the range: seqs ascend, and those that are left out have
// gone. The last one of the range is not left out. The error is the disk's.
func (b *Builder) Add(r message.Record) error {
	if r.Seq() < b.next || r.Seq() > b.o.Last {
		panic(fmt.Sprintf("layer: seq %d is added to %d to %d, want %d or a later one", r.Seq(), b.o.First, b.o.Last, b.next))
	}
	b.next = r.Seq() + 1
	if b.cutter.Next(message.Stride(len(r))) {
		if err := b.endChapter(); err != nil {
			return err
		}
	}
	i := b.o.StoreOf(r.Topic())
	s := b.stores[i]
	if s == nil {
		s = b.newStore()
		b.stores[i] = s
	}
	return s.Add(r)
}

func (b *Builder) endChapter() error {
	for _, s := range b.stores {
		if s == nil {
			continue
		}
		if err := s.End(); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) newStore() *store {
	s := new(store)
	s.StoreWriter = format.NewStoreWriter(format.StoreOptions{
		First: b.o.First, Last: b.o.Last, FirstTime: b.o.FirstTime, LastTime: b.o.LastTime, Chapter: b.o.Chapter, Name: b.o.Name, Packer: b.packer,
		Keep: func(stored []byte) error {
			p, err := b.spool.put(stored)
			s.places = append(s.places, p)
			return err
		},
	})
	return s
}

// Finish writes the files of all stores, durable but for the names, which they have
// when the folder is synced. have is asked for each one first, and what it has is
// not written; it is nil if there is nothing to be asked. done is told of each one
// with its file, nil for what have has; its error ends the work. Abort is to be called
// afterwards.
func (b *Builder) Finish(have func(manifest.FileMeta) bool, done func(manifest.FileMeta, *format.File) error) error {
	if b.next != b.o.Last+1 {
		panic(fmt.Sprintf("layer: %d to %d is finished at %d", b.o.First, b.o.Last, b.next))
	}
	if err := b.endChapter(); err != nil {
		return err
	}
	if err := b.spool.end(); err != nil {
		return err
	}
	for i, s := range b.stores {
		if s == nil {
			continue
		}
		meta, f, err := b.finish(i, s, have)
		if err == nil {
			err = done(meta, f)
		}
		if err != nil {
			return err
		}
		b.stores[i] = nil
	}
	return nil
}

// finish makes the file of one store.
func (b *Builder) finish(i int, s *store, have func(manifest.FileMeta) bool) (manifest.FileMeta, *format.File, error) {
	if have != nil {
		meta, _, err := b.write(s, io.Discard)
		if err != nil || have(meta) {
			return meta, nil, err
		}
	}
	temp := path.Join(b.o.Dir, fmt.Sprintf("%020d-%020d.%d%s", b.o.First, b.o.Last, i, disk.TempSuffix))
	var meta manifest.FileMeta
	var f *format.File
	err := WriteSynced(b.o.FS, temp, func(w io.Writer) (err error) {
		meta, f, err = b.write(s, w)
		return err
	})
	if err != nil {
		return meta, nil, err
	}
	f.Path = path.Join(b.o.Dir, meta.Name())
	b.o.Claim(f.Path)
	return meta, f, b.o.FS.Rename(temp, f.Path)
}

// write writes a store and describes it.
func (b *Builder) write(s *store, to io.Writer) (manifest.FileMeta, *format.File, error) {
	sum, volumes, err := s.Write(to, func(write func([]byte)) error {
		return b.spool.each(s.places, write)
	})
	if err != nil {
		return manifest.FileMeta{}, nil, err
	}
	meta := manifest.Describe(sum)
	meta.Level, meta.Topics, meta.Ancestor = b.o.Level, uint32(len(volumes)), ancestor(volumes)
	return meta, sum.File, nil
}

// ancestor is the deepest name that is each topic or above it; "" is the root.
func ancestor(volumes []format.TopicVolume) string {
	a := volumes[0].Name
	for _, v := range volumes {
		for v.Name != a && !strings.HasPrefix(v.Name, a+"/") {
			a = a[:max(0, strings.LastIndexByte(a, '/'))]
			if a == "" {
				return a
			}
		}
	}
	return a
}

// Abort removes the spool. What is left of unfinished files is removed at the next
// start.
func (b *Builder) Abort() {
	b.spool.close()
	b.stores = nil
}

// SpoolMemory is how many bytes of finished blocks a builder keeps in memory, usually.
const SpoolMemory = 64 << 20

// writeBuffer is how many bytes go to the disk in one call.
const writeBuffer = 256 << 10

// writers are used again: a layer of a thousand small stores writes as many files.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, writeBuffer) }}

// WriteSynced makes a durable file whose name is not yet durable. What is left of
// it after an error is removed at the next start.
func WriteSynced(fsys disk.FS, path string, write func(io.Writer) error) (err error) {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := writers.Get().(*bufio.Writer)
	w.Reset(f)
	defer func() {
		w.Reset(nil)
		writers.Put(w)
	}()
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}
