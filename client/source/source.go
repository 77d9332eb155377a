// Package source reads from a cluster what a backup of it holds: the replicated state,
// and data files.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/client/nodes"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stallAfter is how long a node may keep silent before another one is asked. The first
// response to a question for the state may take longer: others may be before.
const (
	stallAfter = 10 * time.Second
	queueWait  = time.Minute
)

// ErrGone is returned for a file that no node has.
var ErrGone = errors.New("no node has the file")

// Source is some or all nodes of a cluster. Safe for concurrent use.
type Source struct{ nodes *nodes.Set }

// Dial makes a source of the nodes at these addresses. The options are as client.Dial
// takes them; those of transport and token must be among them.
func Dial(addresses []string, options ...grpc.DialOption) (*Source, error) {
	set, err := nodes.Dial(addresses, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrInvalid, err)
	}
	return &Source{set}, nil
}

// Close ends the connections.
func (s *Source) Close() error { return s.nodes.Close() }

// each asks one node after the other, each at most once, until one has given all to w, or
// w fails. The error is that of the last one; gone reports whether all have said that
// they do not have it.
func (s *Source) each(ctx context.Context, w io.Writer, ask func(ctx context.Context, n *nodes.Node, w *guarded) error) (gone bool, err error) {
	gone = true
	for range s.nodes.All() {
		n, failed := s.nodes.Next(ctx)
		if failed != nil {
			return false, failed
		}
		one, cancel := context.WithCancelCause(ctx)
		dog := time.AfterFunc(queueWait, func() { cancel(errSilent) })
		err = ask(one, n, &guarded{w, dog})
		dog.Stop()
		cause := context.Cause(one)
		cancel(nil)
		switch {
		case err == nil:
			s.nodes.Worked(n)
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.As(err, new(*finalError)):
			return false, err
		case cause != nil:
			err = cause
		}
		if status.Code(err) != codes.NotFound {
			gone = false
			s.nodes.Failed(n)
		}
		text := nodes.Text(err)
		if status.Code(err) == codes.Unimplemented {
			text = "an earlier version runs there, which cannot be backed up: upgrade it"
		}
		err = fmt.Errorf("%w: node %s: %s", client.ErrUnavailable, n.Address, text)
	}
	return gone, err
}

// guarded is a writer whose time does not count as the silence of a node.
type guarded struct {
	w   io.Writer
	dog *time.Timer
}

// Write implements io.Writer.
func (g *guarded) Write(b []byte) (int, error) {
	g.dog.Stop()
	defer g.dog.Reset(stallAfter)
	n, err := g.w.Write(b)
	if err != nil {
		err = &finalError{err}
	}
	return n, err
}

// errSilent is why a call was given up.
var errSilent = errors.New("it keeps silent")

// finalError is one that another node cannot help: that of the caller's writer above all.
type finalError struct{ error }

// Unwrap is the error itself.
func (e *finalError) Unwrap() error { return e.error }

// State writes the replicated state of a node that serves, and returns the node's id.
// Another node takes over only where one gave nothing: their states differ.
func (s *Source) State(ctx context.Context, w io.Writer) (node string, err error) {
	_, err = s.each(ctx, w, func(ctx context.Context, n *nodes.Node, w *guarded) error {
		stream, err := n.Cluster.ReadState(ctx, &api.ReadStateRequest{})
		if err != nil {
			return err
		}
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		node = r.NodeId
		for ; err == nil; r, err = stream.Recv() {
			if _, err := w.Write(r.Data); err != nil {
				return err
			}
		}
		if !errors.Is(err, io.EOF) {
			return &finalError{fmt.Errorf("%w: node %s broke off: %s", client.ErrUnavailable, n.Address, nodes.Text(err))}
		}
		return nil
	})
	return node, err
}

// File writes a data file, named by its hash. Where a node breaks off, the next one goes
// on at the same place. Whether the bytes are those of the hash is for the caller to see.
func (s *Source) File(ctx context.Context, hash []byte, w io.Writer) error {
	var offset uint64
	gone, err := s.each(ctx, w, func(ctx context.Context, n *nodes.Node, w *guarded) error {
		stream, err := n.Peer.FetchFile(ctx, &api.FetchFileRequest{Hash: hash, Offset: offset})
		if err != nil {
			return err
		}
		for size := uint64(0); ; {
			r, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF) && offset < size:
				return io.ErrUnexpectedEOF
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			size = r.Size
			got, err := w.Write(r.Data)
			if offset += uint64(got); err != nil {
				return err
			}
		}
	})
	if gone {
		return ErrGone
	}
	return err
}
