package wire

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// snapshotTimeout is how long the sender of a snapshot waits for its installation.
const snapshotTimeout = 30 * time.Second

// Consumer implements raft.Transport.
func (e *Endpoint) Consumer() <-chan raft.RPC { return e.consumer }

// LocalAddr implements raft.Transport.
func (e *Endpoint) LocalAddr() raft.ServerAddress { return Address(e.node) }

// EncodePeer implements raft.Transport.
func (e *Endpoint) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// DecodePeer implements raft.Transport.
func (e *Endpoint) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (e *Endpoint) SetHeartbeatHandler(h func(raft.RPC)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heartbeat = h
}

// AppendEntries implements raft.Transport.
func (e *Endpoint) AppendEntries(_ raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return rpc(e, to, timeout, copyAppend(args), nil, resp)
}

// RequestVote implements raft.Transport.
func (e *Endpoint) RequestVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	c := *args
	return rpc(e, to, timeout, &c, nil, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (e *Endpoint) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	c := *args
	return rpc(e, to, timeout, &c, nil, resp)
}

// TimeoutNow implements raft.Transport.
func (e *Endpoint) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	c := *args
	return rpc(e, to, timeout, &c, nil, resp)
}

// InstallSnapshot implements raft.Transport.
func (e *Endpoint) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	b, err := io.ReadAll(data) // before it leaves: the receiver must not touch the sender's disk
	if err != nil {
		return err
	}
	c := *args
	err = rpc(e, to, snapshotTimeout, &c, b, resp)
	if err == nil && resp.Success {
		e.net.count(1, 0)
	}
	return err
}

// copyAppend keeps the nodes' memories apart: what one does to an entry's bytes,
// another must not see.
func copyAppend(r *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	c := *r
	c.Entries = make([]*raft.Log, len(r.Entries))
	for i, l := range r.Entries {
		m := *l
		m.Data, m.Extensions = slices.Clone(l.Data), slices.Clone(l.Extensions)
		c.Entries[i] = &m
	}
	return &c
}

func rpc[A any](e *Endpoint, to raft.ServerAddress, wait time.Duration, command any, data []byte, resp *A) error {
	node, ok := e.net.node(to)
	if !ok {
		return fmt.Errorf("no node has the address %q", to)
	}
	a, err := call(e, node, wait, func(peer *Endpoint) (A, error) {
		var a A
		r, err := peer.serve(command, data)
		if p, ok := r.(*A); ok && p != nil {
			a = *p
		}
		return a, err
	})
	if err == nil {
		*resp = a
	}
	return err
}

// serve hands a request to this node's Raft and waits for its answer.
func (e *Endpoint) serve(command any, data []byte) (any, error) {
	answers := make(chan raft.RPCResponse, 1)
	r := raft.RPC{Command: command, RespChan: answers}
	if data != nil {
		r.Reader = bytes.NewReader(data)
	}
	if h := e.heartbeatHandler(command); h != nil {
		h(r)
	} else {
		select {
		case e.consumer <- r:
		case <-e.closed:
			return nil, errClosed
		}
	}
	select {
	case a := <-answers:
		return a.Response, a.Error
	case <-e.closed:
		return nil, errClosed
	}
}

// heartbeatHandler is set for heartbeats: like the network transport, this one
// does not let them wait behind the disk.
func (e *Endpoint) heartbeatHandler(command any) func(raft.RPC) {
	r, ok := command.(*raft.AppendEntriesRequest)
	if !ok || r.Term == 0 || r.PrevLogEntry != 0 || r.PrevLogTerm != 0 || len(r.Entries) != 0 || r.LeaderCommitIndex != 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heartbeat
}
