package procs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"chorale/internal/procs"

	"golang.org/x/sys/unix"
)

// An event is what a node shows of its work: a line of its log, or what it does to the
// names in its data folder.
type event struct {
	node *procs.Node
	kind kind
	text string // the line, or the name
}

type kind int

const (
	line    kind = iota
	begun        // a file was created
	named        // a file has got its name
	moved        // a file has lost its name to another place
	deleted      // a file is gone
)

// trap kills processes the moment that a node shows a step.
type trap struct {
	step moment
	skip int // times that the step is let pass first
	pids []int
	// fired is closed behind the kill.
	fired chan struct{}
}

// watcher sees what one node does, through all lives of its process. The events come
// from the kernel, in order, so that a step is seen while it lasts, and nothing in the
// node waits for the one who watches.
type watcher struct {
	node    *procs.Node
	fd      int
	folders map[int32]string
	log     *os.File
	logged  []byte // a line that has not ended
	trap    atomic.Pointer[trap]

	mu      sync.Mutex
	merging bool           // the newest plan that the node began merges layers
	counts  map[string]int // by step: how often it was seen, killed or not
}

// watch begins to watch a node that has started once.
func watch(t *testing.T, n *procs.Node) *watcher {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	must(err)
	w := &watcher{node: n, fd: fd, folders: map[int32]string{}, counts: map[string]int{}}
	for _, dir := range []string{segmentsDir, partialDir, snapshotsDir} {
		at, err := unix.InotifyAddWatch(fd, filepath.Join(n.Dir, dir), unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE)
		must(err)
		w.folders[int32(at)] = dir
	}
	w.log, err = os.Open(n.LogFile())
	must(err)
	_, err = w.log.Seek(0, 2)
	must(err)
	_, err = unix.InotifyAddWatch(fd, n.LogFile(), unix.IN_MODIFY)
	must(err)
	var ended sync.WaitGroup
	ended.Go(w.run)
	t.Cleanup(func() {
		// Whoever removes the watch of the log wakes the reader, which then ends.
		w.stop()
		ended.Wait()
	})
	return w
}

// stop ends the reader of events: a last change in a folder wakes it.
func (w *watcher) stop() {
	name := filepath.Join(w.node.Dir, segmentsDir, endOfWatch)
	if f, err := os.Create(name); err == nil {
		f.Close()
		os.Remove(name)
	}
}

const endOfWatch = "end-of-watch"

func (w *watcher) run() {
	defer unix.Close(w.fd)
	defer w.log.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			at := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			size := binary.NativeEndian.Uint32(b[12:])
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:][:size], "\x00"))
			b = b[unix.SizeofInotifyEvent+size:]
			if name == endOfWatch {
				return
			}
			w.tell(at, mask, name)
		}
	}
}

// tell makes an event of what the kernel reports.
func (w *watcher) tell(at int32, mask uint32, name string) {
	dir, ok := w.folders[at]
	if !ok {
		w.lines()
		return
	}
	name = dir + "/" + name
	switch {
	case mask&unix.IN_CREATE != 0:
		w.on(event{w.node, begun, name})
	case mask&unix.IN_MOVED_TO != 0:
		w.on(event{w.node, named, name})
	case mask&unix.IN_MOVED_FROM != 0:
		w.on(event{w.node, moved, name})
	case mask&unix.IN_DELETE != 0:
		w.on(event{w.node, deleted, name})
	}
}

// lines makes events of what has come to the log.
func (w *watcher) lines() {
	buf := make([]byte, 1<<16)
	for {
		n, _ := w.log.Read(buf)
		if n == 0 {
			return
		}
		w.logged = append(w.logged, buf[:n]...)
		for {
			text, rest, whole := bytes.Cut(w.logged, []byte("\n"))
			if !whole {
				break
			}
			w.logged = rest
			w.on(event{w.node, line, string(text)})
		}
	}
}

// on counts the steps that an event shows, and springs the trap.
func (w *watcher) on(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.kind == line && strings.Contains(e.text, "building a plan") {
		first, last, ok := spanOf(e.text)
		w.merging = ok && w.holds(func(name string, a, b uint64) bool {
			return strings.HasSuffix(name, ".store") && a >= first && b <= last && (a != first || b != last)
		})
	}
	for _, s := range allSteps {
		if !s.shows(w, e) {
			continue
		}
		w.counts[s.name]++
		if t := w.trap.Load(); t != nil && t.step.name == s.name {
			if t.skip--; t.skip < 0 && w.trap.CompareAndSwap(t, nil) {
				for _, pid := range t.pids {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
				close(t.fired)
			}
		}
	}
}

var (
	rangeInName = regexp.MustCompile(`(\d{20})-(\d{20})[-.]`)
	rangeInLine = regexp.MustCompile(`first=(\d+) last=(\d+)`)
)

// spanOf is the range that a name or a line tells.
func spanOf(text string) (first, last uint64, ok bool) {
	m := rangeInName.FindStringSubmatch(text)
	if m == nil {
		m = rangeInLine.FindStringSubmatch(text)
	}
	if m == nil {
		return 0, 0, false
	}
	first, errFirst := strconv.ParseUint(m[1], 10, 64)
	last, errLast := strconv.ParseUint(m[2], 10, 64)
	return first, last, errFirst == nil && errLast == nil
}

// holds reports whether a data file of the node is so.
func (w *watcher) holds(is func(name string, first, last uint64) bool) bool {
	entries, err := os.ReadDir(filepath.Join(w.node.Dir, segmentsDir))
	if err != nil {
		return false
	}
	for _, e := range entries {
		first, last, ok := spanOf(e.Name())
		if ok && (strings.HasSuffix(e.Name(), ".seg") || strings.HasSuffix(e.Name(), ".store")) && is(e.Name(), first, last) {
			return true
		}
	}
	return false
}

// moment is one of a node's work at which it can be killed.
type moment struct {
	name  string
	shows func(w *watcher, e event) bool
	// leads: only the node that leads shows it.
	leads bool
	// wants is what must be done for the step to come.
	wants want
}

type want int

const (
	nothing want = iota
	merges       // ranges may become large
	expiry       // the retention must become less
	drops        // a part of the subtrees must go
	loss         // a file must be lost
)

// replaced reports whether a data file that is gone lies within another one that is
// here: if not, it expired.
func replaced(w *watcher, name string) bool {
	first, last, ok := spanOf(name)
	return ok && w.holds(func(_ string, a, b uint64) bool { return a <= first && last <= b && (a != first || b != last) })
}

func file(k kind, dir, suffix string, also func(w *watcher, name string) bool) func(*watcher, event) bool {
	return func(w *watcher, e event) bool {
		return e.kind == k && strings.HasPrefix(e.text, dir+"/") && strings.HasSuffix(e.text, suffix) && (also == nil || also(w, e.text))
	}
}

func said(text string, also func(w *watcher, name string) bool) func(*watcher, event) bool {
	return func(w *watcher, e event) bool {
		return e.kind == line && strings.Contains(e.text, text) && (also == nil || also(w, e.text))
	}
}

var unfinishedStore = regexp.MustCompile(`\.\d+\.tmp$`)

func merging(w *watcher, _ string) bool  { return w.merging }
func flat(w *watcher, name string) bool  { return !w.merging }
func store(w *watcher, name string) bool { return unfinishedStore.MatchString(name) }

func both(a, b func(*watcher, string) bool) func(*watcher, string) bool {
	return func(w *watcher, name string) bool { return a(w, name) && b(w, name) }
}

func expired(w *watcher, name string) bool {
	return (strings.HasSuffix(name, ".seg") || strings.HasSuffix(name, ".store")) && !replaced(w, name) && !older(w, name)
}

// dropped reports whether a file that is gone had nothing left: ranges expire from the
// oldest one on, files that are dropped go from among others.
func dropped(w *watcher, name string) bool { return !replaced(w, name) && older(w, name) }

// older reports whether a data file of an older range is here.
func older(w *watcher, name string) bool {
	first, _, ok := spanOf(name)
	return ok && w.holds(func(_ string, _, b uint64) bool { return b < first })
}

// allSteps are the moments. A new file or a new duty of the node belongs here.
var allSteps = []moment{
	{name: "a segment is begun", shows: file(begun, segmentsDir, ".seg.tmp", nil)},
	{name: "a segment has its name", shows: file(named, segmentsDir, ".seg", nil)},
	{name: "a plan is committed", shows: said("building a plan", flat)},
	{name: "a store is begun", shows: file(begun, segmentsDir, ".tmp", both(store, flat))},
	{name: "a store has its name", shows: file(named, segmentsDir, ".store", flat)},
	{name: "a plan is built", shows: said("built a plan", flat)},
	{name: "an edit is installed", shows: said("the edit of a plan is installed", flat), leads: true},
	{name: "replaced segments go", shows: file(deleted, segmentsDir, ".seg", replaced)},
	{name: "a merge is committed", shows: said("building a plan", merging), wants: merges},
	{name: "a store of a merge is begun", shows: file(begun, segmentsDir, ".tmp", both(store, merging)), wants: merges},
	{name: "a store of a merge has its name", shows: file(named, segmentsDir, ".store", merging), wants: merges},
	{name: "a merge is built", shows: said("built a plan", merging), wants: merges},
	{name: "the edit of a merge is installed", shows: said("the edit of a plan is installed", merging), leads: true, wants: merges},
	{name: "replaced stores go", shows: file(deleted, segmentsDir, ".store", replaced), wants: merges},
	{name: "an expiry is decided", shows: said("messages expired", nil), leads: true, wants: expiry},
	{name: "expired files go", shows: file(deleted, segmentsDir, "", expired), wants: expiry},
	{name: "a drop is decided", shows: said("files dropped of which nothing was left", nil), leads: true, wants: drops},
	{name: "dropped files go", shows: file(deleted, segmentsDir, ".store", dropped), wants: drops},
	{name: "a lost file is fetched", shows: file(begun, partialDir, ".part", nil), wants: loss},
	{name: "a fetched file gets its name", shows: file(moved, partialDir, ".part", nil), wants: loss},
	{name: "a snapshot is begun", shows: file(begun, snapshotsDir, ".tmp", nil)},
	{name: "a snapshot has its name", shows: file(named, snapshotsDir, "", nil)},
}

// String is how a table names a step.
func (s moment) String() string { return fmt.Sprintf("%-33s", s.name) }
