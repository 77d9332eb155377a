package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"chorale/api"
	"chorale/node/engine/upkeep"
	"chorale/segments"

	"google.golang.org/grpc/codes"
)

// incomplete is why this node should not be a client's first choice: it does not serve,
// or not everything, for want of a file. Clients that come all the same are served what
// there is.
func (s *Server) incomplete() string { return cmp.Or(s.NotReady(), s.Engine.Lacking()) }

// missing is the answer to a reader that needs a file which is not here: it names the
// file, what is known of it, and the nodes that may have it.
func (s *Server) missing(err error) error {
	nodes, message := s.others(), err.Error()
	if nodes != "" {
		message += "; other nodes: " + nodes
	}
	var m *segments.MissingError
	errors.As(err, &m)
	return failure(codes.Unavailable, "MISSING_FILE", message, map[string]string{
		"nodes": nodes, "file": m.Meta.Name(), "position": strconv.FormatUint(m.Position, 10),
	})
}

func scrubStatus(s upkeep.ScrubStatus) *api.ScrubStatus {
	return &api.ScrubStatus{
		EverySeconds: uint64(s.Every / time.Second), Rate: uint64(s.Rate), CurrentFile: s.Current,
		Bytes: uint64(s.Bytes), SoundFiles: uint64(s.Sound),
		BadFiles: uint64(s.Bad), LastBadFile: s.LastBad.File, LastBadTime: unix(s.LastBad.Time), LastBadReason: s.LastBad.Why,
		Files: uint64(s.Files), DueFiles: uint64(s.Due), UnreadFiles: uint64(s.Unread), ReadSince: unix(s.Oldest),
	}
}

func fetchStatus(s upkeep.FetchStatus) *api.FetchStatus {
	return &api.FetchStatus{
		ActiveFiles: uint64(s.Active), MissingFiles: uint64(s.Missing), MissingBytes: uint64(s.MissingBytes),
		PartialBytes: uint64(s.PartialBytes), AllBytes: uint64(s.AllBytes),
		FetchedFiles: uint64(s.Files), ReceivedBytes: uint64(s.Received), DroppedBytes: uint64(s.Dropped),
		Rate: uint64(s.Rate), RateLimit: uint64(s.Limit), LeftNanos: int64(s.Left),
	}
}

// VerifyFiles implements api.ClusterServer.
func (s *Server) VerifyFiles(ctx context.Context, q *api.VerifyFilesRequest) (*api.VerifyFilesResponse, error) {
	checks, more, err := s.Engine.Checks(ctx, q.AfterSeq, q.AfterHash, q.Deep)
	if err != nil {
		return nil, s.failed(err)
	}
	out := &api.VerifyFilesResponse{
		NodeId: string(s.Engine.ID()), ClusterId: fmt.Sprintf("%x", s.Engine.Cluster()),
		OldestSeq: s.Engine.Status().History.Oldest, More: more,
	}
	if files := s.Engine.Files(); len(files) > 0 {
		out.EndSeq = files[len(files)-1].Last
	}
	for _, c := range checks {
		f := &api.FileCheck{
			Hash: c.Hash[:], Name: c.Name(), FirstSeq: c.First, LastSeq: c.Last, Bytes: uint64(c.Bytes), ReadAt: unix(c.ReadAt),
		}
		switch {
		case c.Bad != nil:
			f.State, f.Why = api.FileCheck_BAD, c.Bad.Error()
		case !c.Here && c.Readable:
			f.State, f.Why = api.FileCheck_MISSING, "missing; what it replaces is read meanwhile"
		case !c.Here:
			f.State = api.FileCheck_MISSING
		}
		out.Files = append(out.Files, f)
	}
	return out, nil
}

// unix is in ns, 0 for no time.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
