package show

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"chorale/api"
)

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
