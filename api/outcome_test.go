package api

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestOnce: after which errors nobody knows what became of the call.
func TestOnce(t *testing.T) {
	told, err := status.New(codes.Unavailable, "no leader is known").WithDetails(&errdetails.ErrorInfo{Reason: "UNAVAILABLE"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err     error
		unknown bool
	}{
		{nil, false},
		{told.Err(), false},
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`), false},
		{status.Error(codes.Unavailable, "name resolver error: produced zero addresses"), false},
		{status.Error(codes.Unimplemented, "unknown method"), false},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), true},
		{status.Error(codes.DeadlineExceeded, "context deadline exceeded"), true},
		{context.DeadlineExceeded, true},
		{errors.New("anything"), true},
		{Unknown("it has lost its majority"), true},
	} {
		if got := Once(c.err); (status.Code(got) == codes.Aborted) != c.unknown {
			t.Errorf("%v became %v", c.err, got)
		}
	}
}
