package nodes

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kinds are the words that a node puts before an error of a kind, and which the
// kind says here.
var kinds = []string{"invalid: ", "unavailable: ", "outcome unknown: "}

// Brief is a node's text without them, however many nodes have put one before it.
func Brief(s string) string {
	for again := true; again; {
		again = false
		for _, k := range kinds {
			rest, ok := strings.CutPrefix(s, k)
			s, again = rest, again || ok
		}
	}
	return s
}

// Text is an error of a call in a person's words: gRPC's own wrappings say nothing
// to one, nor does its code where the kind of the error says the same.
func Text(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return Brief(err.Error())
	}
	out := Brief(s.Message())
	if quoted, ok := strings.CutPrefix(out, "connection error: desc = "); ok {
		if plain, err := strconv.Unquote(quoted); err == nil {
			out = strings.TrimPrefix(strings.TrimPrefix(plain, "transport: "), "Error while dialing: ")
		}
	}
	switch s.Code() {
	case codes.Unavailable, codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition, codes.Aborted, codes.Unauthenticated, codes.PermissionDenied:
		return out
	}
	return fmt.Sprintf("%s (%s)", out, s.Code())
}

// Reason is what the node's error info says beside the code; "" without one.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

// Unreached reports whether the call never came to the node. gRPC has no code for that.
func Unreached(err error) bool {
	return strings.Contains(status.Convert(err).Message(), "while dialing")
}
