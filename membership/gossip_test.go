package membership

import (
	"context"
	"net"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// TestEndAsksNobodyElse: a node whose seeds keep silent ends without asking the rest of
// them, each of which it would wait for.
func TestEndAsksNobodyElse(t *testing.T) {
	asked := make(chan int, 10)
	var seeds []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		seeds = append(seeds, l.Addr().String())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close() // until the test is over
				asked <- i
			}
		}()
	}
	g, err := Start(Config{
		ID: "n1", Bind: "127.0.0.1:0", Seeds: seeds, Save: func([]string) error { return nil }, Log: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	if i := <-asked; i != 0 {
		t.Fatalf("seed %d is asked first", i)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	select {
	case i := <-asked:
		t.Errorf("seed %d was asked of a node that ends", i)
	default:
	}
}
