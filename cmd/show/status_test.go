package show

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"chorale/api"
)

// TestStatusRows: who does not vote is told from the followers that do; why a node is not
// ready stands below the table, which it would make wider than any screen; how far a
// refill is is not how full the tip is.
func TestStatusRows(t *testing.T) {
	members := []*api.MemberStatus{{NodeId: "a", Voter: true}, {NodeId: "b"}, {NodeId: "c", Gossip: "dead"}}
	var out bytes.Buffer
	err := Status(&out, []NodeStatus{
		{Address: "a:1", Status: &api.GetStatusResponse{NodeId: "a", State: "follower", LastSeq: 100, Members: members, Tip: &api.TipStatus{Bytes: 1 << 20, CapacityBytes: 4 << 20, FillFromSeq: 1, FillAtSeq: 50}}},
		{Address: "b:1", Status: &api.GetStatusResponse{NodeId: "b", State: "follower", LastSeq: 100, Members: members, NotReady: "catching up"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.String(), "\n\n")
	const want = `NODE  ROLE       HEALTH                    LAST SEQ  BEHIND  TIP                             FILES                       VERSION  LEVELS  API
a     follower   ready                     100       0       1 MiB of 4 MiB, refill at 50 %  0 segments, 0 stores (0 B)  -        -       a:1
b     non-voter  not ready                 100       0       0 B of 0 B                      0 segments, 0 stores (0 B)  -        -       b:1
c     non-voter  no answer (gossip: dead)                                                                                -        -       

b is not ready: catching up
`
	if table != want {
		t.Errorf("got\n%swant\n%s", table, want)
	}
}

// TestStatusComing: what a node lacks and is fetching is told with how much is here, how
// fast it comes and how long that takes; what does not come, without.
func TestStatusComing(t *testing.T) {
	const mib = 1 << 20
	for want, f := range map[string]*api.FetchStatus{
		"2 segments, 0 stores (100 MiB), 3 missing (85 % are here, 15 MiB to come at 5 MiB/s, 3s left)  ": {
			ActiveFiles: 2, MissingFiles: 3, MissingBytes: 20 * mib, PartialBytes: 5 * mib, AllBytes: 100 * mib, Rate: 5 * mib, LeftNanos: int64(3 * time.Second),
		},
		"3 missing (80 % are here, 20 MiB to come at 0 B/s)  ": {ActiveFiles: 1, MissingFiles: 3, MissingBytes: 20 * mib, AllBytes: 100 * mib},
		"3 missing  ": {MissingFiles: 3, MissingBytes: 20 * mib, AllBytes: 100 * mib},
	} {
		var out bytes.Buffer
		err := Status(&out, []NodeStatus{{Address: "a:1", Err: errors.New("down")}, {Address: "b:1", Status: &api.GetStatusResponse{
			NodeId: "b", History: &api.HistoryStatus{Segments: 2, Bytes: 100 * mib, MissingFiles: 3}, Fetch: f,
		}}})
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, want %q in\n%s", err, want, out.String())
		}
	}
}
