package upkeep

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chorale/segments"

	"github.com/hashicorp/go-hclog"
)

// empty takes all files of the node away and starts it anew.
func (w *world) empty() {
	for _, m := range w.files {
		w.must(w.fsys.Lose("segments/" + m.Name()))
	}
	w.open()
}

// TestOrder: what a reader asked for, then what has begun, then the newest.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.empty()
		n := len(w.files)
		begun, asked := w.files[n-3], w.files[2]
		w.must(w.fsys.MkdirAll("partial"))
		w.must(w.fsys.PutFile("partial/"+begun.Name()+".part", w.copies[begun.Hash][:100]))
		k := w.keeper(0, 0)
		r, err := w.log.NewRangeReader(asked.First, asked.Last)
		w.must(err)
		_, _, err = r.Read(nil, 1<<20)
		r.Close()
		_ = k.Explain(err)
		x := &repairs{Keeper: k, busy: make(map[segments.Hash]bool)}
		var got []segments.FileMeta
		for m, ok := x.next(k.want()); ok; m, ok = x.next(k.want()) {
			x.busy[m.Hash] = true
			got = append(got, m)
		}
		want := []segments.FileMeta{asked, begun}
		for _, m := range slices.Backward(w.files) {
			if m != asked && m != begun && m.First > 1 {
				want = append(want, m)
			}
		}
		if len(got) != n || !slices.Equal(got[:len(want)], want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	})
}

// TestJoins: a node that has nothing gets everything, a few files at a time, and says how
// far it is; in another life it goes on where the first one was.
func TestJoins(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		all := total(w.log.Files())
		w.empty()
		var said bytes.Buffer
		w.rate = all / 60 // a minute for all
		k := w.keeper(0, 0)
		k.o.Log = hclog.New(&hclog.LoggerOptions{Output: &said, DisableTime: true})
		stop := run(k)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		s := k.Fetching()
		stop()
		if s.Active != s.Missing || s.Share() < 0.4 || s.Share() > 0.9 || s.Left <= 0 || s.Left > time.Minute {
			t.Errorf("after half the time: %+v", s)
		}
		w.open()
		again := w.keeper(0, 0)
		again.o.Log = k.o.Log
		stop = run(again)
		time.Sleep(time.Minute)
		stop()
		w.whole()
		if end := again.Fetching(); end.Received+s.Received > all+all/20 || end.Missing != 0 || end.Share() != 1 || end.Left != 0 {
			t.Errorf("%d and %d bytes came, of %d: %+v", s.Received, end.Received, all, end)
		}
		for _, want := range []string{"fetching missing files: files=6", "still fetching missing files", `here="0.0 %"`, "no file is missing any more: fetched="} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, said.String())
			}
		}
	})
}

// TestOldManifest: a node that has just started fetches nothing of a manifest that is older
// than what it knows of; but it does not wait for ever.
func TestOldManifest(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, heard := range []bool{true, false} {
			w.empty()
			k, begun := w.keeper(0, 0), time.Now()
			k.o.Current = func() bool { return heard && time.Since(begun) > 5*time.Second }
			stop := run(k)
			time.Sleep(4 * time.Second)
			synctest.Wait()
			if s := k.Fetching(); s.Received > 0 {
				t.Errorf("%d bytes came at once", s.Received)
			}
			time.Sleep(currentWait)
			synctest.Wait()
			stop()
			w.whole()
		}
	})
}

// TestUnwantedCopies: what an edit removed goes, but not before the node is as far as it
// knows, and not at once; what is wanted stays, also if it does not come.
func TestUnwantedCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.empty()
		w.refuse(errors.New("nobody"))
		left, old := w.files[3], "00000000000000000001-00000000000000000009-0123456789abcdef.seg"
		w.must(w.fsys.MkdirAll("partial"))
		w.must(w.fsys.PutFile("partial/"+left.Name()+".part", w.copies[left.Hash][:100]))
		w.must(w.fsys.PutFile("partial/"+old+".part", make([]byte, 50)))
		k := w.keeper(0, 0)
		current := make(chan bool)
		k.o.Current = func() bool {
			select {
			case <-current:
				return true
			default:
				return false
			}
		}
		defer run(k)()
		for _, step := range []struct {
			wait time.Duration
			then func()
			want int
		}{{time.Hour, func() { close(current) }, 2}, {2 * time.Minute, func() {}, 1}, {time.Hour, func() {}, 1}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if n, _ := k.fetcher.Partial().Stats(); n != step.want {
				t.Fatalf("%d copies, want %d", n, step.want)
			}
			step.then()
		}
		if s := k.Fetching(); s.PartialBytes != 100 || s.Dropped != 50 {
			t.Errorf("%+v", s)
		}
		w.refuse(nil)
		time.Sleep(time.Minute)
		w.whole()
		if s := k.Fetching(); s.Received != total(w.log.Files())-100 {
			t.Errorf("%+v", s)
		}
	})
}
