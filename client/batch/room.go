package batch

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Room bounds the units that are accepted and not decided, in messages and bytes. A
// unit that is larger by itself takes all of it. Safe for concurrent use.
type Room struct {
	maxMessages, maxBytes int64
	messages, bytes       *semaphore.Weighted
}

// NewRoom makes room for so much.
func NewRoom(messages int, bytes int64) *Room {
	return &Room{
		int64(messages), bytes,
		semaphore.NewWeighted(int64(messages)), semaphore.NewWeighted(bytes),
	}
}

// Take takes what a unit needs, as soon as it is free; the error is the context's.
func (r *Room) Take(ctx context.Context, u Unit) error {
	messages, bytes := r.share(u)
	if err := r.messages.Acquire(ctx, messages); err != nil {
		return err
	}
	if err := r.bytes.Acquire(ctx, bytes); err != nil {
		r.messages.Release(messages)
		return err
	}
	return nil
}

// Give gives back what units took.
func (r *Room) Give(units ...Unit) {
	var messages, bytes int64
	for _, u := range units {
		m, b := r.share(u)
		messages, bytes = messages+m, bytes+b
	}
	r.messages.Release(messages)
	r.bytes.Release(bytes)
}

func (r *Room) share(u Unit) (messages, bytes int64) {
	return min(int64(u.Messages), r.maxMessages), min(int64(u.Bytes), r.maxBytes)
}
