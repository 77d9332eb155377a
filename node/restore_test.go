package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"chorale/api"
	"chorale/backup"
	"chorale/client"
	"chorale/client/source"
	"chorale/disk"
	"chorale/message"
	"chorale/segments"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// running is a node as a backup.Source.
type running struct{ *source.Source }

func (r running) File(ctx context.Context, h segments.Hash, w io.Writer) error {
	err := r.Source.File(ctx, h[:], w)
	if errors.Is(err, source.ErrGone) {
		return backup.ErrGone
	}
	return err
}

// backUp takes a backup of a node.
func backUp(t *testing.T, address, dir string) backup.Taken {
	t.Helper()
	from, err := source.Dial([]string{address}, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	took, err := backup.Take{To: disk.OS(dir), Source: running{from}, Version: "test"}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return took
}

func restoreTo(t *testing.T, from, dir, id string) error {
	t.Helper()
	_, _, err := backup.Restore{
		From: disk.OS(from), Open: func(cluster string) (backup.Target, error) { return BeginRestore(dir, id, cluster) },
	}.Run(t.Context())
	return err
}

// TestRestore: a cluster that is founded from a backup has its messages, seqs, times and
// producers, is another one, and another node joins it; the old one's members are
// nobody there.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	c.SegmentBytes = minSegmentBytes
	a, _ := boot(t, c)
	old := dial(t, a.API)
	var b message.Builder
	for i := range 200 {
		b.Add(uint64(i+1), message.Entry{Topic: "a/b", Draft: message.Draft{Payload: bytes.Repeat([]byte{byte(i)}, 1000)}})
	}
	batch := b.Encode(nil, message.ProducerID{9})
	if r, err := try(t, old, batch); err != nil || r.Error != nil {
		t.Fatal(r, err)
	}
	last := publish(t, old, "c", "the last one of the backup")
	took := backUp(t, a.API, t.TempDir()+"/b")
	if took.Seq != 201 || took.Producers != 2 {
		t.Fatalf("%+v", took)
	}
	dir := t.TempDir() + "/b"
	backUp(t, a.API, dir)
	publish(t, old, "c", "too late for the backup")

	n := single(t, filepath.Join(t.TempDir(), "data"))
	n.ID, n.BootstrapExpect = "n1", 0
	if err := restoreTo(t, dir, n.Dir, "n1"); err != nil {
		t.Fatal(err)
	}
	fresh, _ := boot(t, n)
	now := dial(t, fresh.API)
	want, got := recoverAll(t, old), recoverAll(t, now)
	if len(got) != 201 || strings.Join(got, "") != strings.Join(want[:201], "") {
		t.Errorf("%d messages came along, want %d", len(got), 201)
	}
	// Retries of what the old cluster acknowledged.
	r, err := try(t, now, batch)
	if err != nil || r.Error != nil || r.Outcomes[0].Kind != api.Outcome_DUPLICATE || r.Outcomes[0].Seq != 1 {
		t.Errorf("a retry was answered %v, %v", r, err)
	}
	p, err := now.GetProducer(t.Context(), &api.GetProducerRequest{ProducerId: last[:]})
	if err != nil || p.LastNumber != 1 {
		t.Errorf("the last producer: %v, %v", p, err)
	}
	strangers(t, a, fresh, took)

	second := single(t, t.TempDir())
	second.ID, second.BootstrapExpect, second.Join = "n2", 0, []string{fresh.Gossip}
	joined, _ := boot(t, second)
	if got := recoverAll(t, dial(t, joined.API)); len(got) != 201 {
		t.Errorf("the node that joined has %d messages", len(got))
	}
	publish(t, dial(t, joined.API), "c", "new")
	list, err := now.GetStatus(t.Context(), &api.GetStatusRequest{})
	if err != nil || len(list.Members) != 2 || list.LastSeq < 202 {
		t.Errorf("%v, %v", list, err)
	}
}

// strangers: a client of the old cluster is told that this is another one.
func strangers(t *testing.T, a, fresh Addresses, took backup.Taken) {
	t.Helper()
	c, err := client.Dial([]string{fresh.API}, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, seq := range []uint64{100, 202} {
		sub, err := c.Subscribe(t.Context(), client.SubscribeOptions{From: client.Resume(client.Position{Cluster: took.Cluster, Seq: seq, Filters: []string{"**"}})})
		if err == nil {
			for _, err = range sub.Messages(t.Context()) {
				break
			}
			sub.Close()
		}
		if !errors.Is(err, client.ErrOtherCluster) {
			t.Errorf("a position of node %s at seq %d: %v", a.ID, seq, err)
		}
	}
}

// TestRestoreRefused: folders that a restore must not touch, and one whose restore has
// not ended, with which no node starts.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	a, stop := boot(t, c)
	dir := t.TempDir() + "/b"
	publish(t, dial(t, a.API), "a", "x")
	backUp(t, a.API, dir)
	wants(t, restoreTo(t, dir, c.Dir, "solo").Error(), c.Dir, "belongs to a node already")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	wants(t, restoreTo(t, dir, c.Dir, "solo").Error(), c.Dir, "belongs to a node already", "name an empty folder")
	wants(t, restoreTo(t, dir, t.TempDir(), "a b").Error(), `id = "a b"`)

	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "holiday.jpg"), []byte("JFIF"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, restoreTo(t, dir, other, "n1").Error(), other, "is not empty (it has holiday.jpg)")

	n := single(t, t.TempDir())
	n.ID = "n1"
	r, err := BeginRestore(n.Dir, "n1", "abab")
	if err != nil {
		t.Fatal(err)
	}
	wants(t, restoreTo(t, dir, n.Dir, "n1").Error(), n.Dir, "was begun for node \"n1\" from a backup of cluster abab")
	wants(t, refused(t, n), n.Dir, "in use by another process")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, n), n.Dir, "a restore into it has not ended")
	wants(t, restoreTo(t, dir, n.Dir, "n1").Error(), n.Dir, "or empty the folder, and restore again")
}

// TestRestoreGoesOn: what an interrupted restore has left of Raft's files is no hindrance.
func TestRestoreGoesOn(t *testing.T) {
	t.Parallel()
	c := single(t, t.TempDir())
	a, _ := boot(t, c)
	dir := t.TempDir() + "/b"
	publish(t, dial(t, a.API), "a", "x")
	took := backUp(t, a.API, dir)

	n := single(t, t.TempDir())
	n.ID, n.BootstrapExpect = "n1", 0
	if err := restoreTo(t, dir, n.Dir, "n1"); err != nil {
		t.Fatal(err)
	}
	// As a crash leaves it right before the identity is written.
	if err := os.Remove(filepath.Join(n.Dir, identityFile)); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(beginning{"n1", took.Cluster})
	if err == nil {
		err = os.WriteFile(filepath.Join(n.Dir, restoreFile), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	wants(t, refused(t, n), "a restore into it has not ended")
	if err := restoreTo(t, dir, n.Dir, "n1"); err != nil {
		t.Fatal(err)
	}
	fresh, stop := boot(t, n)
	if got := recoverAll(t, dial(t, fresh.API)); len(got) != 1 || got[0] != "x" {
		t.Errorf("got %q", got)
	}
	// It starts again, as any node, and with the flag that is true of it.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n.BootstrapExpect = 1
	fresh, _ = boot(t, n)
	publish(t, dial(t, fresh.API), "a", "y")
}
