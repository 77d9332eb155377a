package raftlog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// Cache keeps the newest entries of a log in memory, for replication: without it,
// each entry is read back from disk for each follower. Unlike raft.LogCache it is
// bounded by bytes, because entries have 100 bytes or 1 MiB.
type Cache struct {
	raft.LogStore
	limit int64

	mu    sync.RWMutex
	logs  []*raft.Log // consecutive indexes
	bytes int64
}

// NewCache keeps up to that many bytes of entries, and the newest one in any case.
func NewCache(store raft.LogStore, bytes int64) *Cache {
	return &Cache{LogStore: store, limit: bytes}
}

// IsMonotonic implements raft.MonotonicLogStore for the store below.
func (c *Cache) IsMonotonic() bool {
	m, ok := c.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// GetLog implements raft.LogStore.
func (c *Cache) GetLog(index uint64, log *raft.Log) error {
	c.mu.RLock()
	if n := len(c.logs); n > 0 && index >= c.logs[0].Index && index <= c.logs[n-1].Index {
		*log = *c.logs[index-c.logs[0].Index]
		c.mu.RUnlock()
		return nil
	}
	c.mu.RUnlock()
	return c.LogStore.GetLog(index, log)
}

// StoreLog implements raft.LogStore.
func (c *Cache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore. Entries are cached once they are stored.
func (c *Cache) StoreLogs(logs []*raft.Log) error {
	if err := c.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range logs {
		if n := len(c.logs); n > 0 && c.logs[n-1].Index+1 != l.Index {
			c.clear()
		}
		c.logs = append(c.logs, l)
		c.bytes += size(l)
	}
	for c.bytes > c.limit && len(c.logs) > 1 {
		c.dropOldest()
	}
	return nil
}

// DeleteRange implements raft.LogStore.
func (c *Cache) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	for len(c.logs) > 0 && c.logs[0].Index <= last {
		c.dropOldest()
	}
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}

func (c *Cache) dropOldest() {
	c.bytes -= size(c.logs[0])
	c.logs[0] = nil
	c.logs = c.logs[1:]
}

func (c *Cache) clear() { c.logs, c.bytes = nil, 0 }

// size is what an entry costs.
func size(l *raft.Log) int64 { return int64(len(l.Data)+len(l.Extensions)) + 128 }
