package client

import (
	"slices"
	"strings"
	"testing"

	"chorale/api"
	"chorale/message"
)

// TestOnExpired: a program is told what had gone of a topic before it was delivered, and gets
// the rest.
func TestOnExpired(t *testing.T) {
	c := filled(t, 1, 40)
	n, expired := c.nodes[0], false
	n.frameMessages = 4 // seqs 2 3 8 9, then 14 15 20 21, ..
	n.onFrame = func(m *api.SubscribeResponse) error {
		if m.ScannedSeq > 9 && !expired {
			expired = true
			r, _, err := message.Split(m.Records)
			if err != nil {
				return err
			}
			m.Records = m.Records[message.Stride(len(r)):]
			m.Floors = []*api.Floor{{Filter: "t/1", Seq: 15}}
		}
		return nil
	}
	var told []Expired
	s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{
		Filters: []string{"t/1", "t/2"}, UntilTip: true, OnExpired: func(e Expired) { told = append(told, e) },
	})
	if got := strings.Join(rest(t, s), " "); got != "1 2 7 8 14 19 20 25 26 31 32 37 38" {
		t.Error(got)
	}
	if want := []Expired{{Topic: "t/1", After: 8, Last: 14}}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}
