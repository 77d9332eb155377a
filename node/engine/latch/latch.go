// Package latch is a switch that is thrown once.
package latch

import "sync"

// Latch is set once. Make with New. Safe for concurrent use.
type Latch struct {
	once   *sync.Once
	closed chan struct{}
}

// New is a latch that is not set.
func New() Latch { return Latch{new(sync.Once), make(chan struct{})} }

// Set sets it.
func (l Latch) Set() { l.once.Do(func() { close(l.closed) }) }

// Done is closed when it is set.
func (l Latch) Done() <-chan struct{} { return l.closed }

// IsSet reports whether it is set.
func (l Latch) IsSet() bool { return Closed(l.closed) }

// Closed reports whether a channel on which nothing is sent is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
