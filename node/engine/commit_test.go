package engine

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestTransferThatDoesNotEnd: a node that refuses everything for too long because it hands
// leadership over ends; one that does so now and then does not.
func TestTransferThatDoesNotEnd(t *testing.T) {
	refused := fmt.Errorf("%w: %w", ErrUnavailable, raft.ErrLeadershipTransferInProgress)
	for _, c := range []struct {
		what  string
		every time.Duration
		nth   func(i int) error
		stuck bool
	}{
		{"all are refused", time.Second, func(int) error { return refused }, true},
		{"one in ten is not", time.Second, func(i int) error {
			if i%10 == 0 {
				return nil
			}
			return refused
		}, false},
		{"one an hour", time.Hour, func(int) error { return refused }, false},
		{"for another reason", time.Second, func(int) error { return raft.ErrNotLeader }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var why error
			k := newCommitter(func(err error) { why = err })
			for i := range 50 {
				k.watch(c.nth(i))
				time.Sleep(c.every)
			}
			if stuck := errors.Is(why, errStuck); stuck != c.stuck {
				t.Errorf("%s: stuck %v: %v", c.what, stuck, why)
			}
		})
	}
}
