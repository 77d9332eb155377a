package segments

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/inspect"
	"chorale/topic"
)

// cluster is some nodes that apply the same log, each at its own pace in all that is
// not the log: who builds what and when, what is lost and repaired, who restarts.
type cluster struct {
	*stream // makes the messages; its log is that of the first node
	rng     *rand.Rand
	nodes   []*member
	entries []entry // of the Raft log
	faulty  bool    // files are damaged and nodes restart
	pick    func() (string, int)
}

// entry is one of the Raft log: messages, or an edit if there are none.
type entry struct {
	messages []message.Record
	edit     Edit
}

// member is one node with its readers.
type member struct {
	*stream
	fsys     *disk.Mem
	readers  []*follower
	snapshot snapshot // its newest
}

// snapshot is what Raft keeps of a node.
type snapshot struct {
	entries  int // that it has
	manifest Manifest
	next     uint64 // seq of the first message that is not in the manifest's files
	pending  []Stretch
}

// follower is a reader that is checked as it goes.
type follower struct {
	*Reader
	list  []string
	at    uint64
	limit int
}

func newCluster(t *testing.T, seed uint64, faulty bool) *cluster {
	c := &cluster{rng: rand.New(rand.NewPCG(seed, 3)), faulty: faulty}
	for i := range 2 {
		fsys := disk.NewMem(seed + uint64(i))
		m := &member{stream: newStream(t, fsys.Mount()), fsys: fsys, snapshot: snapshot{next: 1}}
		if i > 0 {
			m.table, m.floors = c.nodes[0].table, c.nodes[0].floors
			m.reopen(t, fsys.Mount())
		}
		m.log.scans.Window = 1 << c.rng.IntN(18)
		m.log.SetTarget(4000)
		c.nodes = append(c.nodes, m)
		for range 3 {
			m.readers = append(m.readers, &follower{list: someFilters[c.rng.IntN(len(someFilters))], limit: 1 + c.rng.IntN(4000)})
		}
	}
	c.stream = c.nodes[0].stream
	c.pick = picker(c.rng, 200)
	return c
}

func (c *cluster) some() *member { return c.nodes[c.rng.IntN(len(c.nodes))] }

// publish appends an entry on all nodes.
func (c *cluster) publish(t *testing.T) {
	from := len(c.all)
	c.entry(1+c.rng.IntN(20), c.pick)
	c.entries = append(c.entries, entry{messages: c.all[from:]})
	for _, n := range c.nodes[1:] {
		n.all = c.all
		n.append(c.all[from:])
	}
	for _, n := range c.nodes {
		check(t, n.log.CutIfFull())
	}
}

// apply installs an edit on all nodes; a refusal would be the same on all.
func (c *cluster) apply(t *testing.T, e Edit) {
	t.Helper()
	c.entries = append(c.entries, entry{edit: e})
	for _, n := range c.nodes {
		refused, mismatch := n.log.Install(e)
		check(t, refused)
		check(t, mismatch)
	}
}

func (c *cluster) step(t *testing.T) {
	n := c.some()
	switch k := c.rng.IntN(26); {
	case k >= 25:
		c.keep(n)
	case k >= 24:
		n.upToDate()
	case k >= 22:
		c.dropSome(t)
	case k >= 20:
		c.explain(t, n)
	case k < 6:
		c.publish(t)
	case k < 9:
		_, err := n.log.BuildOne()
		check(t, err)
	case k < 11:
		if p := n.log.Proposals(); len(p) > 0 {
			c.apply(t, Edit{Add: p[:1]})
		}
	case k < 13:
		c.compactSome(t)
	case k < 14:
		if x := c.log.Manifest().Ranges(); len(x) > 4 && c.rng.IntN(3) == 0 {
			var e Edit
			for _, m := range x[0].Files {
				e.Remove = append(e.Remove, m.Hash)
			}
			c.apply(t, e)
		}
	case k < 15:
		c.repair(t, n, c.rng.IntN(2))
	case k < 16 && c.faulty:
		c.damage(t)
	case k < 17 && c.faulty:
		c.restart(t, n)
	case k < 17:
		check(t, n.log.Tidy(0, 0))
	default:
		c.follow(t, n, n.readers[c.rng.IntN(len(n.readers))])
	}
}

// compactSome compacts neighbouring ranges. Any node may build before the edit, after
// it, or not at all.
func (c *cluster) compactSome(t *testing.T) {
	ranges := c.log.Manifest().Ranges()
	if len(ranges) == 0 {
		return
	}
	from := c.rng.IntN(len(ranges))
	ranges = ranges[from:min(len(ranges), from+1+c.rng.IntN(4))]
	stores, salt := 1+c.rng.IntN(6), c.rng.Uint32()
	storeOf := func(id uint32) int { return int((id*7919 ^ salt) % uint32(stores)) }
	var edit Edit
	var late []*member
	for _, n := range c.nodes {
		if edit.Add != nil && c.rng.IntN(3) == 0 {
			late = append(late, n)
			continue
		}
		e, err := c.buildLayer(n.log, ranges, stores, storeOf)
		if errors.Is(err, ErrNotHere) || errors.Is(err, ErrCorrupt) {
			continue // it will fetch them
		}
		check(t, err)
		if edit.Add != nil && !slices.Equal(e.Add, edit.Add) {
			t.Fatalf("two nodes built %v and %v", e.Add, edit.Add)
		}
		edit = e
	}
	if edit.Add == nil {
		return
	}
	if c.rng.IntN(8) == 0 { // the plan is abandoned
		for _, n := range c.nodes {
			check(t, n.log.Tidy(0, 0))
		}
		return
	}
	var readers []*Reader
	for _, n := range late { // they have begun, and go on after the edit
		r, err := n.log.NewRangeReader(ranges[0].First, ranges[len(ranges)-1].Last)
		check(t, err)
		readers = append(readers, r)
	}
	c.apply(t, edit)
	for _, r := range readers {
		r.Close()
	}
}

// dropSome takes a store away that all of a node may have or not, and may be reading; not the
// one with the last message of its range.
func (c *cluster) dropSome(t *testing.T) {
	files := c.log.Manifest().Files
	for range 3 {
		if len(files) == 0 {
			return
		}
		m := files[c.rng.IntN(len(files))]
		if _, topics, err := c.some().log.topicsOf(m.Hash); err == nil && m.Kind == KindStore && !hasLast(m, topics) {
			c.apply(t, c.drop(m, topics))
			return
		}
	}
}

// repair fetches some missing files from the other nodes.
func (c *cluster) repair(t *testing.T, n *member, atMost int) {
	t.Helper()
	for i, m := range n.log.Missing() {
		if i == atMost {
			return
		}
		for _, o := range c.nodes {
			f, _, err := o.log.OpenFile(m.Hash)
			if err != nil {
				continue
			}
			b := make([]byte, m.Bytes)
			_, err = f.ReadAt(b, 0)
			check(t, err)
			check(t, f.Close())
			if err := importFile(n.log, m, b); err != nil && !errors.Is(err, ErrBadCopy) {
				t.Fatal(err)
			}
		}
	}
}

// damage breaks a file that another node has.
func (c *cluster) damage(t *testing.T) {
	n := c.nodes[1]
	v := n.log.view.Load()
	for i, f := range v.files {
		if o := c.log.view.Load().files[i]; f != nil && o != nil && c.rng.IntN(len(v.files)) == 0 {
			check(t, n.fsys.FlipBit(f.Path, c.rng.Int64N(f.Size*8)))
			return
		}
	}
}

// keep makes a snapshot of now.
func (c *cluster) keep(m *member) {
	x := snapshot{entries: len(c.entries), manifest: m.log.Manifest(), pending: m.log.Pending()}
	x.next = max(x.manifest.End()+1, m.log.Oldest())
	if len(x.pending) > 0 {
		x.next = x.pending[0].First
	}
	m.snapshot = x
}

// restart is a crash, and a start from the newest snapshot. What has come to the log since
// is replayed, while the builder runs at times.
func (c *cluster) restart(t *testing.T, m *member) {
	for _, r := range m.readers {
		r.stop()
	}
	window, x := m.log.scans.Window, m.snapshot
	m.fsys.Crash()
	if m == c.nodes[1] && c.rng.IntN(2) == 0 {
		c.spoil(t, m)
	}
	m.beginReplay(t, m.fsys.Mount())
	m.log.scans.Window = window
	m.log.SetTarget(4000)
	check(t, m.log.Restore(x.manifest, x.next))
	for _, s := range x.pending {
		m.append(m.all[s.First-1 : s.Last])
		if s.Closed {
			check(t, m.log.Cut())
		}
	}
	for _, e := range c.entries[x.entries:] {
		if c.rng.IntN(4) == 0 {
			_, err := m.log.BuildOne()
			check(t, err)
		}
		if e.messages == nil {
			refused, mismatch := m.log.Install(e.edit)
			check(t, errors.Join(refused, mismatch))
			continue
		}
		m.append(e.messages)
		check(t, m.log.CutIfFull())
	}
	if c.rng.IntN(2) == 0 { // else it learns later that this was all
		m.upToDate()
	}
}

// spoil breaks a file of a node that is down, or puts another's contents there, unless it is
// the last sound copy.
func (c *cluster) spoil(t *testing.T, m *member) {
	entries, err := m.fsys.List("data")
	check(t, err)
	if len(entries) == 0 {
		return
	}
	at := entries[c.rng.IntN(len(entries))]
	for i, x := range c.log.Manifest().Files {
		if f := c.log.view.Load().files[i]; x.Name() == at.Name() && f == nil {
			return
		}
	}
	name := "data/" + at.Name()
	switch c.rng.IntN(4) {
	case 0:
		check(t, m.fsys.FlipBit(name, c.rng.Int64N(at.Size()*8)))
	case 1:
		check(t, m.fsys.Truncate(name, c.rng.Int64N(at.Size())))
	case 2:
		b, err := m.fsys.ReadFile("data/" + entries[c.rng.IntN(len(entries))].Name())
		check(t, err)
		check(t, m.fsys.PutFile(name, b))
	case 3:
		check(t, m.fsys.Mount().Remove(name))
	}
}

// append takes messages in that the model has.
func (m *member) append(messages []message.Record) {
	for _, r := range messages {
		m.log.Append(m.table.Partition(r.Topic()), r)
	}
	m.log.Publish()
}

func (r *follower) stop() {
	if r.Reader != nil {
		r.Close()
		r.Reader = nil
	}
}

// follow reads once and compares with the model.
func (c *cluster) follow(t *testing.T, n *member, r *follower) error {
	t.Helper()
	f := filters(t, r.list...)
	if r.Reader == nil {
		r.Reader = n.log.NewReader(topic.NewSelection(c.table, f), r.at)
	}
	out, p, err := r.Read(nil, r.limit)
	got := n.seqs(t, out, p.Count)
	var want []uint64
	for _, m := range c.all[r.at:p.Scanned] {
		if c.left(m) && f.Match(c.table.Name(m.Topic())) {
			want = append(want, m.Seq())
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%v from %d to %d: %v, want %v", r.list, r.at, p.Scanned, got, want)
	}
	r.at = p.Scanned
	switch {
	case errors.Is(err, ErrExpired):
		r.stop()
		r.at = n.log.Oldest() - 1
	case err != nil && !c.faulty && !errors.Is(err, ErrNotHere), err != nil && !errors.Is(err, ErrNotHere) && !errors.Is(err, ErrCorrupt):
		t.Fatal(err)
	case err != nil && !c.faulty && len(n.log.Missing()) == 0:
		t.Fatalf("%v, but nothing is missing", err)
	}
	return err
}

// TestLayersModel plays random lives of a cluster: content and order never differ, and
// in the end the nodes have the same files to the byte, and no others.
func TestLayersModel(t *testing.T) {
	for seed := range uint64(8) {
		c := newCluster(t, seed, seed%2 == 1)
		for range 300 {
			c.step(t)
		}
		c.finish(t, seed)
	}
}

func (c *cluster) finish(t *testing.T, seed uint64) {
	t.Helper()
	for _, n := range c.nodes {
		for _, r := range n.readers {
			for failed := 0; r.at < n.log.End(); {
				if err := c.follow(t, n, r); err != nil {
					if failed++; failed > 100 {
						t.Fatalf("seed %d: %v, and nothing helps", seed, err)
					}
					c.repair(t, n, 1000)
				}
			}
			r.stop()
		}
		if c.faulty {
			c.restart(t, n) // tables are proven at the start, blocks when they are read
		}
		c.scrub(t, n)
	}
	var folders []map[string]string
	for _, n := range c.nodes {
		for _, m := range n.log.Missing() {
			t.Fatalf("seed %d: %s is missing", seed, m.Name())
		}
		c.settled(t, n)
		c.scrub(t, n) // of what was spoilt before its edit came, the blocks were not looked at
		folder := map[string]string{}
		for _, m := range n.log.Manifest().Files {
			folder[m.Name()] = string(readFile(t, n.log, m.Hash))
			check(t, inspect.File(n.fsys.Mount(), "data/"+m.Name(), io.Discard, inspect.Options{}))
		}
		entries, err := n.fsys.List("data")
		check(t, err)
		for _, e := range entries {
			if whole, aside := strings.CutSuffix(e.Name(), damagedSuffix); aside && n.log.Manifest().HasLike(whole) {
				continue
			}
			if folder[e.Name()] == "" {
				t.Fatalf("seed %d: %s is left", seed, e.Name())
			}
		}
		folders = append(folders, folder)
	}
	if fmt.Sprint(folders[0]) != fmt.Sprint(folders[1]) {
		t.Fatalf("seed %d: the folders differ", seed)
	}
}

// settled brings a node to rest: all is built, proposed files aside nothing waits.
func (c *cluster) settled(t *testing.T, n *member) {
	t.Helper()
	n.upToDate()
	check(t, n.log.Cut())
	for {
		more, err := n.log.BuildOne()
		check(t, err)
		if !more {
			break
		}
	}
	if p := n.log.Proposals(); len(p) > 0 {
		for _, o := range c.nodes {
			o.upToDate()
			check(t, o.log.Cut())
			for more := true; more; {
				var err error
				more, err = o.log.BuildOne()
				check(t, err)
			}
		}
		c.apply(t, Edit{Add: p})
	}
	check(t, n.log.Tidy(0, 0))
	_, err := n.log.BuildOne()
	check(t, err)
	if s := n.log.Stats(); s.Stray+s.Built+s.Replaced+s.Stretches+s.Missing != 0 || s.DurableEnd != uint64(len(c.all)) {
		t.Fatalf("%+v", s)
	}
}

// scrub reads everything until all damage is found and repaired.
func (c *cluster) scrub(t *testing.T, n *member) {
	for tries := 0; ; tries++ {
		c.repair(t, n, 1000)
		_, err := n.read(t, filters(t, "**"), n.log.Oldest()-1, 1<<20)
		if err == nil {
			return
		}
		if tries > 100 || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotHere) {
			t.Fatal(err)
		}
	}
}
