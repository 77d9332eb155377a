package api

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ReasonUnknown is the reason, and codes.Aborted the code, of the error of a call after
// which nobody knows whether what it asked for was done, or will be.
const ReasonUnknown = "UNKNOWN_OUTCOME"

// Unknown is such an error.
func Unknown(message string) error {
	st := status.New(codes.Aborted, message)
	if with, err := st.WithDetails(&errdetails.ErrorInfo{Reason: ReasonUnknown, Domain: "chorale"}); err == nil {
		st = with
	}
	return st.Err()
}

// Once is the error of a call that is not to be made twice without looking in between.
// What a node has said stays, and so does that it was not reached; what broke off on the
// way becomes an Unknown.
func Once(err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.OK, codes.Unimplemented:
		return err
	}
	for _, d := range s.Details() {
		if _, ok := d.(*errdetails.ErrorInfo); ok {
			return err
		}
	}
	for _, never := range []string{"while dialing", "resolver"} { // gRPC has no code for it
		if s.Code() == codes.Unavailable && strings.Contains(s.Message(), never) {
			return err
		}
	}
	return Unknown(s.Message())
}
