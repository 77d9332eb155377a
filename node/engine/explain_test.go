package engine

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"chorale/message"
	"chorale/recovery"
	"chorale/segments"
	"chorale/tip"
)

// TestExplain: what is told of a subscription over stores and the tip is what it
// delivers; to tell it takes nothing away.
func TestExplain(t *testing.T) {
	small := func(s *Settings) {
		compacting(s)
		s.TipBytes = tip.MinBytes
	}
	inBubble(t, 1, small, func(c *cluster) {
		n := c.leader()
		c.traffic(n, 40)
		c.settled()
		for _, filters := range [][]string{{"**"}, {"part0/**"}, {"*/topic1", "nothing"}} {
			for _, after := range []uint64{0, n.engine.End() / 3, n.engine.End()} {
				s, err := n.subscribe(SubscribeRequest{Filters: filters, After: after, UntilTip: true})
				if err != nil {
					t.Fatal(err)
				}
				var messages, bytes segments.Amount
				at, kinds := after, make(map[string]bool)
				if err := s.Explain(func(p recovery.Part) error {
					if p.First != at+1 {
						t.Errorf("%q: %+v behind %d", filters, p, at)
					}
					messages, bytes, at = messages.Plus(p.Messages), bytes.Plus(p.Bytes), p.Last
					kinds[fmt.Sprint(p.Kind, p.Tip)] = true
					return nil
				}); err != nil || at != s.Until {
					t.Fatalf("%q from %d to %d of %d: %v", filters, after, at, s.Until, err)
				}
				if after == 0 && len(kinds) < 2 {
					t.Errorf("not of stores and the tip: %v", kinds)
				}
				var delivered, size uint64
				for err == nil {
					var b []byte
					var p message.Progress
					b, p, err = s.Next(t.Context(), nil, 4096)
					delivered, size = delivered+uint64(p.Count), size+uint64(len(b))
				}
				if !errors.Is(err, io.EOF) || delivered < messages.Low || delivered > messages.High || size < bytes.Low || size > bytes.High ||
					after == 0 && !(messages.Exact() && bytes.Exact()) {
					t.Errorf("%q behind %d: %d messages of %d bytes, told was %+v and %+v: %v", filters, after, delivered, size, messages, bytes, err)
				}
				s.Close()
			}
		}
		stop := errors.New("enough")
		s, err := n.subscribe(SubscribeRequest{Filters: []string{"**"}, UntilTip: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Explain(func(recovery.Part) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("stopped: %v", err)
		}
	})
}
