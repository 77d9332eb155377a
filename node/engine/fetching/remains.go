package fetching

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"chorale/segments"

	"github.com/hashicorp/raft"
)

// patience is how often a node may fail to give something of its copy.
const patience = 3

// Remains are the copies of a file that other nodes have, sound or not, for who finds no
// sound one: of nodes that are not in a pause after a failure. Each is read from there, at
// the rate of all fetching, only as far as it is asked for; by one goroutine, until ctx
// ends. What is not read is not there: a copy that is cut ends with io.EOF.
func (f *Fetcher) Remains(ctx context.Context, m segments.FileMeta) (out []io.ReaderAt) {
	others := f.o.Peers.Others()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range others {
		if !time.Now().Before(f.peer(id).until) {
			out = append(out, &remains{Fetcher: f, ctx: ctx, meta: m, from: id})
		}
	}
	return out
}

// remains is the copy of one node.
type remains struct {
	*Fetcher
	ctx  context.Context
	meta segments.FileMeta
	from raft.ServerID

	at     int64 // of piece, in the file
	piece  []byte
	failed int
	err    error // for which the node is not asked again
}

// ReadAt implements io.ReaderAt.
func (r *remains) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		at := off + int64(n) - r.at
		if at < 0 || at >= int64(len(r.piece)) {
			if err := r.next(off + int64(n)); err != nil {
				return n, err
			}
			at = 0
		}
		n += copy(b[n:], r.piece[at:])
	}
	return n, nil
}

// next gets the piece at an offset: something of it, or an error.
func (r *remains) next(off int64) error {
	want := min(pieceMin, r.meta.Bytes-off)
	if r.err != nil {
		return r.err
	}
	if err := r.limit.wait(r.ctx, want); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, stallWait)
	defer cancel()
	var b bytes.Buffer
	err := r.o.Peers.Salvage(ctx, r.from, r.meta.Hash, off, want, &b)
	r.limit.refund(want - int64(b.Len()))
	r.received(int64(b.Len()))
	switch {
	case b.Len() > 0: // what ended it will be met again
		r.at, r.piece = off, b.Bytes()
		return nil
	case err == nil:
		return io.EOF
	}
	// A bad sector is an error too, and not the whole of the copy.
	if r.failed++; r.failed == patience || errors.Is(err, segments.ErrNotHere) {
		r.err = err
	}
	return err
}
