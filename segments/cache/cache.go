// Package cache keeps what is dear to make and wanted by many, up to a number of
// bytes, and makes each value once at a time.
package cache

import (
	"container/list"
	"sync"
)

// Cache maps keys to values that are immutable once they are made. What was not
// asked for the longest goes first. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit int64

	mu      sync.Mutex
	used    int64
	entries map[K]*entry[K, V]
	order   list.List // of *entry; the last one goes first; without those being made
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int64
	err   error
	made  chan struct{} // closed when value or err is there
	at    *list.Element
}

// New makes a cache of up to limit bytes. What is being made counts when it is there.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, entries: make(map[K]*entry[K, V])}
}

// Get returns the value of a key. If it is not here, one caller makes it, and says
// how many bytes it takes, while the others wait. An error goes to all of these and
// is not kept.
func (c *Cache[K, V]) Get(key K, load func() (V, int64, error)) (V, error) {
	e, mine := c.find(key)
	if mine {
		c.make(e, load)
	}
	<-e.made
	return e.value, e.err
}

// Try is Get for a caller that has something else to do: while another one makes the
// value it returns at once, and here is false.
func (c *Cache[K, V]) Try(key K, load func() (V, int64, error)) (value V, here bool, err error) {
	e, mine := c.find(key)
	if mine {
		c.make(e, load)
	}
	select {
	case <-e.made:
		return e.value, true, e.err
	default:
		return value, false, nil
	}
}

// find returns the entry of a key, and whether the caller has to make it.
func (c *Cache[K, V]) find(key K) (e *entry[K, V], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries[key]; e != nil {
		if e.at != nil {
			c.order.MoveToFront(e.at)
		}
		return e, false
	}
	e = &entry[K, V]{key: key, made: make(chan struct{})}
	c.entries[key] = e
	return e, true
}

func (c *Cache[K, V]) make(e *entry[K, V], load func() (V, int64, error)) {
	e.value, e.bytes, e.err = load()
	c.mu.Lock()
	if e.err != nil {
		delete(c.entries, e.key)
	} else {
		e.at = c.order.PushFront(e)
		c.used += e.bytes
		c.shrink()
	}
	c.mu.Unlock()
	close(e.made)
}

// shrink lets go of values until the rest fits. Under mu.
func (c *Cache[K, V]) shrink() {
	for c.used > c.limit {
		e := c.order.Remove(c.order.Back()).(*entry[K, V])
		delete(c.entries, e.key)
		c.used -= e.bytes
	}
}

// Has reports whether Get would not make the value.
func (c *Cache[K, V]) Has(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[key] != nil
}

// Bytes is how many bytes the values take.
func (c *Cache[K, V]) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
