package nodes

import (
	"context"
	"time"
)

// Call is what is asked of a node.
type Call func(ctx context.Context, n *Node) error

// Judge makes of the error of a call what the caller is to see, and says whether another
// node may do better.
type Judge func(address string, err error) (wrapped error, retry bool)

// Ask makes a call on one node after the other until one answers, each at most once and
// for as long as stall. Where none does, the error is that of the last one that said
// anything: a node's word tells more than that another one could not be reached.
func (s *Set) Ask(ctx context.Context, stall time.Duration, call Call, judge Judge) error {
	var last error
	told := false
	for range s.list {
		n, err := s.Next(ctx)
		if err != nil {
			return err
		}
		says := false
		one, retry := s.AskOne(ctx, n, stall, func(ctx context.Context, n *Node) error {
			err := call(ctx, n)
			says = Reason(err) != ""
			return err
		}, judge)
		if one == nil || !retry {
			return one
		}
		if says || !told {
			last, told = one, says
		}
	}
	return last
}

// AskOne makes a call on one node, and notes how it went.
func (s *Set) AskOne(ctx context.Context, n *Node, stall time.Duration, call Call, judge Judge) (err error, retry bool) {
	one, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	if err = call(one, n); err == nil {
		s.Worked(n)
		return nil, false
	}
	if ctx.Err() != nil {
		return ctx.Err(), false
	}
	err, retry = judge(n.Address, err)
	if retry {
		s.Failed(n)
	}
	return err, retry
}
