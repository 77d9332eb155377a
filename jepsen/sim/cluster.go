package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"chorale/disk"
	"chorale/jepsen/check"
	"chorale/jepsen/history"
	"chorale/jepsen/sim/ledger"
	"chorale/jepsen/sim/power"
	"chorale/jepsen/sim/wire"
	"chorale/node/engine"
	"chorale/node/raftlog"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func serverID(name string) raft.ServerID { return raft.ServerID(name) }

// cluster is the machines and everything that happens to them.
type cluster struct {
	seed     uint64
	plan     plan
	net      *wire.Network
	machines []*machine
	rec      history.Recorder
	ledger   *ledger.Ledger
	begin    time.Time
	log      *logbook
	applied  uint64 // up to what entry a node had come when sameFloors was called last

	booting   sync.WaitGroup // what the nemesis will undo by itself
	operating sync.WaitGroup // what operators are about to end

	mu       sync.Mutex
	findings []check.Finding
	deadline time.Time         // of the clients; zero while there is none
	known    map[string]uint64 // topic -> last seq that any publisher was told
	spoilt   map[string]bool   // data files that were damaged on one machine
	seen     map[string]bool   // events
}

// machine is a computer: its disk stays when its process does not.
type machine struct {
	c      *cluster
	index  int
	name   string
	disk   *disk.Mem
	starts int
	// reads is the highest level that the build reads which was started last.
	reads atomic.Uint32
	// starting is held by who boots the machine. Capacity 1.
	starting chan struct{}
	// folder counts the disks that the machine had; above 1 its node joined the cluster.
	folder atomic.Int64
	// joined is the folder that was let into the cluster last.
	joined atomic.Int64
	// leaving: the operator wants the node removed, so it may end. held: it is, and the
	// operator replaces the disk and boots the machine.
	leaving, held atomic.Bool

	mu      sync.Mutex
	live    *process // nil while down
	excused bool     // its disk was made to fail: the node may end, reads may fail
}

// process is one run of a node on a machine.
type process struct {
	m      *machine
	drive  *power.Drive
	engine *engine.Engine
	end    *wire.Endpoint
	life   context.Context // of the process
	kill   context.CancelFunc
	down   chan struct{} // closed when clients lose the node
	ended  chan struct{} // closed when Run has returned err
	err    error
}

func newCluster(o Options) *cluster {
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	c := &cluster{
		seed: o.Seed, plan: newPlan(rng), net: wire.New(nodes, o.Seed), begin: time.Now(),
		ledger: ledger.New(nodes), log: &logbook{out: o.Log}, known: map[string]uint64{}, spoilt: map[string]bool{}, seen: map[string]bool{},
	}
	c.plan.replaced = c.rng("replaced", 0).IntN(3) == 0
	c.plan.retained = c.rng("retained", 0).IntN(4) == 0
	c.plan.ruled = c.rng("ruled", 0).IntN(2) == 0
	c.plan.earliest = level.Built().Highest
	if rng := c.rng("upgraded", 0); rng.IntN(3) == 0 {
		c.plan.earliest = pick(rng, level.First, level.Stores, level.Retention, level.Members, level.Logged, level.Subtrees)
	}
	if c.plan.retained {
		c.plan.earliest = max(c.plan.earliest, level.Retention)
	}
	if c.plan.replaced {
		c.plan.earliest = max(c.plan.earliest, level.Members)
	}
	for i := range nodes {
		m := &machine{
			c: c, index: i, name: string(wire.Address(i)), disk: disk.NewMem(o.Seed*nodes + uint64(i)), starting: make(chan struct{}, 1),
		}
		m.folder.Store(1)
		c.machines = append(c.machines, m)
	}
	return c
}

// rng is the source of one actor.
func (c *cluster) rng(actor string, number int) *rand.Rand {
	h := uint64(number + 1)
	for _, b := range []byte(actor) {
		h = h*1099511628211 + uint64(b)
	}
	return rand.New(rand.NewPCG(c.seed, h))
}

// found notes that something is wrong.
func (c *cluster) found(what, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings = append(c.findings, check.Finding{Check: what, Text: fmt.Sprintf("after %v: ", time.Since(c.begin)) + fmt.Sprintf(format, args...)})
}

func (c *cluster) setDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
}

// expired reports whether clients must give up.
func (c *cluster) expired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.deadline.IsZero() && time.Now().After(c.deadline)
}

func (c *cluster) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.rec.Fault(time.Now().UnixNano(), text)
	c.log.line(time.Since(c.begin), "nemesis", text)
}

// start boots a machine that does not run, unless the operator will. The first start of
// each founds the same cluster.
func (m *machine) start() {
	m.starting <- struct{}{}
	defer func() { <-m.starting }()
	if !m.held.Load() && m.process() == nil {
		m.bootNow()
	}
}

// bootNow is start for who holds starting.
func (m *machine) bootNow() {
	m.starts++
	p, err := m.boot()
	if err != nil && m.isExcused() { // the operator looks after the disk, as in ended
		m.disk.ClearFaults()
		m.disk.Crash()
		p, err = m.boot()
	}
	if err != nil {
		m.c.found("no-start", "%s does not start: %v", m.name, err)
		return
	}
	m.mu.Lock()
	m.live = p
	m.mu.Unlock()
}

// excuse says that a disk fails on purpose, from now on for ever: what was damaged
// may be noticed late.
func (m *machine) excuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.excused = true
}

func (m *machine) isExcused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.excused
}

// boot puts a node together as package node does, over the simulation's seams:
// the same guard of the Raft log, over a journal instead of bbolt.
func (m *machine) boot() (*process, error) {
	drive := power.NewDrive(m.disk.Mount(), m.c.seed+uint64(m.starts*nodes+m.index))
	journal, err := power.OpenJournal(drive)
	if err != nil {
		return nil, err
	}
	inner, err := m.c.ledger.Witness(journal, m.index)
	if err != nil {
		return nil, err
	}
	log, err := raftlog.Wrap(inner, m.name, raftlog.DefaultDeadline)
	if err != nil {
		return nil, err
	}
	files, err := power.OpenSnapshots(drive)
	if err != nil {
		return nil, err
	}
	snapshots := log.Snapshots(files)
	if err := log.Reconcile(snapshots); err != nil {
		return nil, err
	}
	p := &process{m: m, drive: drive, down: make(chan struct{}), ended: make(chan struct{}), end: m.c.net.Attach(m.index)}
	settings := m.c.plan.settings(m.name)
	settings.Incarnation, settings.Steady = members.Incarnation(m.folder.Load()), steady
	settings.Reads = m.build()
	p.engine, err = engine.Open(settings, engine.Seams{
		Files: drive, Logs: raftlog.NewCache(log, cacheBytes), Stable: log, Snapshots: snapshots,
		Transport: p.end, Peers: p.end,
		Log: hclog.New(&hclog.LoggerOptions{Level: m.c.log.level(), Output: m.c.log.of(m), DisableTime: true}),
	})
	if err == nil && m.folder.Load() == 1 {
		err = m.bootstrap(p)
	}
	if err != nil {
		p.end.Close()
		return nil, err
	}
	p.end.Serve(p.engine)
	p.life, p.kill = context.WithCancel(context.Background())
	go func() {
		p.err = p.run(log)
		drive.Off()
		p.end.Close()
		close(p.ended)
	}()
	go m.watch(p)
	return p, nil
}

// lingering is for how long a hanging call of a process may outlive it.
const lingering = time.Minute

// cacheBytes is so small that entries are read from the journal too.
const cacheBytes = 8 << 10

// run runs the node until its life ends or something fails for good. The guard of
// the log lives longer: a process that left a hanging write behind is no more, but
// here its goroutines still meet the guard, when the disk goes on.
func (p *process) run(log *raftlog.Store) error {
	if p.life.Err() != nil {
		return nil // the power went before it began
	}
	guarded, done := context.WithCancel(context.Background())
	defer time.AfterFunc(lingering, done)
	go func() {
		_ = log.Run(guarded) // log.Err tells as well
		p.kill()
	}()
	time.Sleep(time.Microsecond) // until the guard is there
	if !p.introduce() {
		return nil
	}
	err := p.engine.Run(p.life)
	if cause := log.Err(); cause != nil {
		return cause
	}
	return err
}

func (m *machine) bootstrap(p *process) error {
	var c raft.Configuration
	for i := range nodes {
		c.Servers = append(c.Servers, raft.Server{ID: serverID(string(wire.Address(i))), Address: wire.Address(i)})
	}
	if err := p.engine.Bootstrap(c); !errors.Is(err, raft.ErrCantBootstrap) {
		return err
	}
	return nil
}

// watch notices a node that ends by itself, which none should.
func (m *machine) watch(p *process) {
	select {
	case <-p.down:
	case <-p.ended:
		p.kill() // what it began beside its engine ends too
		select {
		case <-p.down: // it was told to
		default:
			m.ended(p.err)
		}
	}
}

// ended starts a node again that stopped by itself. Only a broken disk, and a log
// that asks for it, are good reasons.
func (m *machine) ended(err error) {
	if m.wasRemoved(err) {
		m.take()
		return
	}
	if m.isExcused() || errors.Is(err, raftlog.ErrStartAgain) {
		m.c.note("%s ended by itself: %v", m.name, err)
		m.c.saw("a node ended by itself")
		m.disk.ClearFaults()
		// What a failed sync left in the page cache reads well and is not durable; a
		// machine with such a disk is booted anew, so that nobody relies on it.
		m.disk.Crash()
	} else {
		m.c.found("stopped", "%s stopped by itself: %v", m.name, err)
	}
	m.take()
	m.start()
}

// take makes the machine's process unreachable for clients and returns it.
func (m *machine) take() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.live
	if p != nil {
		close(p.down)
		m.live = nil
	}
	return p
}

// process is the running one, nil while down.
func (m *machine) process() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

// crash ends the process at once, by taking the machine's power away, or else as
// kill -9 does, which leaves what was written and not synced. What still runs of the
// process reaches neither disk nor network, and ends by itself.
func (m *machine) crash(power bool) {
	p := m.take()
	if p == nil {
		return
	}
	p.drive.Off()
	if power {
		m.disk.Crash()
	}
	p.end.Close()
	p.kill()
	if !slices.ContainsFunc(m.c.machines, func(m *machine) bool { return m.process() != nil }) {
		m.c.saw("all machines were down at once")
	}
}

// stop ends the process as an operator would, who may meet another that removes the node, or
// replaces its disk.
func (m *machine) stop() {
	folder, p := m.folder.Load(), m.take()
	if p == nil {
		return
	}
	p.kill()
	<-p.ended
	if p.err != nil && !m.wasRemoved(p.err) && !m.isExcused() && m.folder.Load() == folder {
		m.c.found("bad-stop", "%s was stopped gracefully and says: %v", m.name, p.err)
	}
}

// leader is the index of a node that believes to lead, or of any.
func (c *cluster) leader(rng *rand.Rand) int {
	for i, m := range c.machines {
		if p := m.process(); p != nil && p.engine.Status().State == "leader" {
			return i
		}
	}
	return rng.IntN(nodes)
}
