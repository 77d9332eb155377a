package node

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"chorale/api"
	"chorale/backup"
	"chorale/client/source"
	"chorale/disk"
	"chorale/message"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestBackupUnderLoad: backups of three nodes that are written to, one of which ends
// meanwhile, are each a prefix of the stream, and each copies what is new.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	var addresses []string
	var clients []api.StreamClient
	var stopLast func() error
	var gossip string
	for i := range 3 {
		c := single(t, t.TempDir())
		c.ID, c.SegmentBytes = fmt.Sprintf("n%d", i+1), minSegmentBytes
		if i > 0 {
			c.BootstrapExpect, c.Join = 0, []string{gossip}
		}
		a, stop := boot(t, c)
		if i == 0 {
			gossip = a.Gossip
		}
		addresses, clients, stopLast = append(addresses, a.API), append(clients, dial(t, a.API)), stop
	}
	from, err := source.Dial(addresses, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()

	var publishing sync.WaitGroup
	stop := make(chan struct{})
	publishing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var b message.Builder
			for j := range 40 {
				b.Add(0, message.Entry{Topic: fmt.Sprintf("p%d/x", j%7), Draft: message.Draft{Payload: bytes.Repeat([]byte{byte(i), byte(j)}, 500)}})
			}
			_, _ = try(t, clients[i%2], b.Encode(nil, message.ProducerID{})) // no majority for a moment, perhaps
		}
	})
	dir := filepath.Join(t.TempDir(), "b")
	take := func() backup.Taken {
		took, err := backup.Take{To: disk.OS(dir), Source: running{from}}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return took
	}
	last, kept := take(), 0
	for round := 0; round < 6 || last.Seq < 4000; round++ {
		took := take()
		if took.Seq < last.Seq || took.Bad > 0 || took.Copied+took.Kept < took.Files {
			t.Fatalf("a backup of seq %d after one of %d: %+v", took.Seq, last.Seq, took)
		}
		if kept += took.Kept; round == 2 {
			if err := stopLast(); err != nil {
				t.Fatal(err)
			}
		}
		last = took
	}
	if kept == 0 {
		t.Error("every backup copied all files")
	}
	close(stop)
	publishing.Wait()
	t.Logf("seq %d in %d files", last.Seq, last.Files)

	n := single(t, filepath.Join(t.TempDir(), "data"))
	n.ID, n.BootstrapExpect = "r", 0
	if err := restoreTo(t, dir, n.Dir, "r"); err != nil {
		t.Fatal(err)
	}
	a, _ := boot(t, n)
	want, got := recoverAll(t, clients[0]), recoverAll(t, dial(t, a.API))
	if uint64(len(got)) != last.Seq || len(got) > len(want) {
		t.Fatalf("%d messages were restored of a backup of %d; the cluster has %d", len(got), last.Seq, len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("message %d is another one", i+1)
		}
	}
}
