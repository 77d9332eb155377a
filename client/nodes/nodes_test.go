package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// set is a set of nodes that refuse to be connected to, but for some that say nothing.
func set(t *testing.T, n int, silent ...string) *Set {
	var addresses []string
	for i := range n {
		addresses = append(addresses, fmt.Sprintf("passthrough:///n%d", i))
	}
	dialer := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if slices.Contains(silent, address) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, errors.New("connection refused")
	})
	s, err := Dial(addresses, grpc.WithTransportCredentials(insecure.NewCredentials()), dialer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func next(t *testing.T, s *Set) *Node {
	t.Helper()
	n, err := s.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLivingNodesTakeTurns(t *testing.T) {
	s := set(t, 3)
	seen := map[*Node]int{}
	for range 30 {
		seen[next(t, s)]++
	}
	for n, times := range seen {
		if times != 10 {
			t.Fatalf("%s had %d of 30 turns", n.Address, times)
		}
	}
}

func TestFailedNodesRestLongerEachTimeAndOthersComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, 2)
		bad := next(t, s)
		s.Failed(bad)
		begin := time.Now()
		good := next(t, s)
		if good == bad || next(t, s) != good || next(t, s) != good || time.Since(begin) > 0 {
			t.Fatal("a resting node had a turn, or was waited for")
		}
		s.Worked(bad)
		rest := backoffMin
		for range 8 {
			s.Failed(good)
			s.Failed(bad)
			begin := time.Now()
			next(t, s)
			if d := time.Since(begin); d < rest*3/4 || d > rest*5/4 {
				t.Fatalf("it rested for %v, want about %v", d, rest)
			}
			time.Sleep(2 * backoffMax)
			rest = min(2*rest, backoffMax)
		}
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, 1)
		for range 9 {
			s.Failed(next(t, s))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if n, err := s.Next(ctx); err != context.DeadlineExceeded {
			t.Fatal(n, err)
		}
	})
}

func TestSilentNodesArePassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, 3, "n0", "n1")
		begin := time.Now()
		for range 5 {
			if n := next(t, s); n != s.list[2] {
				t.Fatalf("it is the turn of %s, which does not even refuse", n.Address)
			}
		}
		if d := time.Since(begin); d > 3*connectGrace {
			t.Fatalf("the one that answers was found after %v", d)
		}
	})
}

func TestWhereAllAreSilentOneIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, 2, "n0", "n1")
		begin := time.Now()
		next(t, s)
		if d := time.Since(begin); d > 3*connectGrace {
			t.Fatalf("waited for %v", d)
		}
	})
}

func TestNextEndsWhileNobodyConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, 2, "n0", "n1")
		ctx, cancel := context.WithTimeout(context.Background(), connectGrace/2)
		defer cancel()
		if n, err := s.Next(ctx); err != context.DeadlineExceeded {
			t.Fatal(n, err)
		}
	})
}
