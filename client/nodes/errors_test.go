package nodes

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestText: what a person reads of a failed call, without what gRPC and other nodes
// wrapped around it.
func TestText(t *testing.T) {
	dial := `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`
	for want, err := range map[string]error{
		"no answer in time": errors.New("no answer in time"),
		"dial tcp 127.0.0.1:1: connect: connection refused":    status.Error(codes.Unavailable, dial),
		`connection error: desc = "cut`:                        status.Error(codes.Unavailable, `connection error: desc = "cut`),
		"this node does not lead":                              status.Error(codes.Unavailable, "unavailable: unavailable: this node does not lead"),
		`invalid topic "a//b": an empty level`:                 status.Error(codes.InvalidArgument, `invalid: invalid topic "a//b": an empty level`),
		"the connection broke":                                 errors.New("outcome unknown: unavailable: the connection broke"),
		"file 7: checksum (DataLoss)":                          status.Error(codes.DataLoss, "file 7: checksum"),
		"unknown method Explain for service X (Unimplemented)": status.Error(codes.Unimplemented, "unknown method Explain for service X"),
	} {
		if got := Text(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
		if got := Text(fmt.Errorf("wrapped: %w", errors.New("plain"))); got != "wrapped: plain" {
			t.Errorf("got %q", got)
		}
	}
}
