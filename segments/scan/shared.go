// Package scan reads the wanted messages of a range of the stream from its files: from
// a segment, or from the stores of a layer, which it merges.
package scan

import (
	"errors"
	"math"

	"chorale/segments/cache"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/topic"
)

// Shared is what all scans of a history have in common.
type Shared struct {
	Cache  *Cache
	Topics *topic.Table
	Window int // bytes that a window loads, if its first blocks are not more
	// Lose is told of a file that is damaged or absent.
	Lose func(f *data.File, cause error)
}

// WindowBytes is the budget of a window: a part of a processor's cache, for the
// records are picked from it in the order of seqs.
const WindowBytes = 4 << 20

// Cache keeps blocks of stores, unpacked, and tables of stores.
type Cache = cache.Cache[key, cached]

// NewCache makes a cache of up to so many bytes.
func NewCache(limit int64) *Cache { return cache.New[key, cached](limit) }

// key names a block of a store, or its tables by indexBlock.
type key struct {
	file  *data.File
	block uint32
}

const indexBlock = math.MaxUint32

// cached is one of both.
type cached struct {
	records []byte
	index   *format.StoreIndex
}

// broken tells of a damaged file.
func (s *Shared) broken(f *data.File, err error) error {
	if errors.Is(err, format.ErrCorrupt) {
		s.Lose(f, err)
	}
	return err
}

// Output is what one read appends to.
type Output struct {
	Bytes []byte
	Limit int // length of Bytes not to be passed
	Count int
	Full  bool // the next message did not fit
}

// Add appends a record if it fits.
func (o *Output) Add(padded []byte) bool {
	if len(o.Bytes)+len(padded) > o.Limit && o.Count > 0 {
		o.Full = true
		return false
	}
	o.Bytes = append(o.Bytes, padded...)
	o.Count++
	return true
}
