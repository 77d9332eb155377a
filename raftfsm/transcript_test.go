package raftfsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"chorale/message"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/retention"
	"chorale/segments"
	"chorale/topic"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts runs testdata: entries in, outcomes and state out.
//
//	genesis [segment=BYTES] [retention=NS] [producers=N] [runs=N]
//	publish [time=NS]        one entry; each line of the input is a unit, such as
//	    a/b x, c/d?7 y       (payload x to a/b, and y to c/d if its last seq is 7);
//	                         "batch [producer=p number=n]" starts a further batch
//	flip bit=N               publish with a bit of the entry flipped
//	build                    builds files and commits their edits
//	edit remove=oldest       an edit by hand
//	plan [first=N last=N] [stores=N] [without=I]
//	                         to compact the files from seq first to seq last, the
//	                         I-th left out
//	store plan=INDEX [first=N last=N] [short] [trims]
//	                         the edit of a plan: one store for these files, with a
//	                         message too few if short, which it says with trims; or
//	                         a store for each line of the input: ANCESTOR MESSAGES
//	drop                     each line is a file: the first seq of its range, and which
//	                         file of the range it is, from 0
//	abandon plan=INDEX
//	retain [age=NS] [bytes=N]
//	expire oldest=SEQ [time=NS]
//	rules known=N            each line of the input is a rule: FILTER [age=NS] [bytes=N]
//	floors number=N [time=NS]
//	                         each line is a floor: INDEX SEQ
//	member OP ID [folder=N] [voter] [data]
//	level N by=VERSION       raises the level of the log
//	build-of lowest=N highest=N
//	                         further machines are of a build that reads these levels
//	entry BYTES              raw bytes in hexadecimal
//	new                      begins again with nothing
//	topics, producers, stream, pending, view, active, kept
//	snapshot NAME [OTHER]    keeps a snapshot, and says whether it is like OTHER
//	restore NAME [fresh]     into this machine, or into a new one over the same files
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		tr := &transcript{fixture: newFixture(t, 0), snapshots: make(map[string][]byte)}
		datadriven.RunTest(t, path, tr.run)
	})
}

type transcript struct {
	*fixture
	snapshots map[string][]byte
}

func (tr *transcript) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		tr.restart(0)
		return ""
	case "genesis":
		g := Genesis{Cluster: testCluster, SegmentBytes: 1 << 20}
		d.MaybeScanArgs(t, "segment", &g.SegmentBytes)
		d.MaybeScanArgs(t, "retention", &g.ProducerRetention)
		r := tr.apply(EncodeGenesis(g))
		d.MaybeScanArgs(t, "producers", &tr.fsm.state.producers.maxProducers)
		d.MaybeScanArgs(t, "runs", &tr.fsm.state.producers.maxRuns)
		return tr.answer(r)
	case "publish":
		var now int64
		d.MaybeScanArgs(t, "time", &now)
		return tr.answer(tr.apply(EncodePublish(now, parseBatches(t, d.Input))))
	case "flip":
		var bit int
		d.ScanArgs(t, "bit", &bit)
		b := EncodePublish(1, parseBatches(t, d.Input))
		b[bit/8] ^= 1 << (bit % 8)
		return tr.answer(tr.apply(b))
	case "build":
		tr.build()
		return tr.files()
	case "edit":
		var e segments.Edit
		if files := tr.history.Manifest().Files; len(files) > 0 {
			e.Remove = []segments.Hash{files[0].Hash}
		} else {
			e.Remove = []segments.Hash{{1}}
		}
		return tr.answer(tr.apply(EncodeEdit(e))) + tr.files()
	case "plan":
		return tr.answer(tr.apply(EncodePlan(tr.plan(t, d))))
	case "store":
		return tr.answer(tr.apply(EncodeEdit(tr.store(t, d)))) + tr.files()
	case "abandon":
		var plan uint64
		d.ScanArgs(t, "plan", &plan)
		return tr.answer(tr.apply(EncodeAbandon(plan)))
	case "retain":
		var r Retention
		d.MaybeScanArgs(t, "age", &r.Age)
		d.MaybeScanArgs(t, "bytes", &r.Bytes)
		return tr.answer(tr.apply(EncodeRetain(r)))
	case "expire":
		var x Expiry
		d.ScanArgs(t, "oldest", &x.Oldest)
		d.MaybeScanArgs(t, "time", &x.Time)
		return tr.answer(tr.apply(EncodeExpire(x))) + tr.files()
	case "drop":
		return tr.answer(tr.apply(EncodeDrop(tr.drop(d)))) + tr.files()
	case "rules":
		return tr.answer(tr.apply(EncodeRules(parseRules(t, d))))
	case "floors":
		return tr.answer(tr.apply(EncodeFloors(parseRise(t, d))))
	case "member":
		return tr.answer(tr.apply(EncodeMember(memberChange(t, d)))) + tr.members()
	case "level":
		var m level.Mark
		d.ScanArgs(t, "by", &m.By)
		fmt.Sscan(d.CmdArgs[0].Key, &m.Level)
		return tr.answer(tr.apply(EncodeLevel(m)))
	case "build-of":
		var lowest, highest uint64
		d.ScanArgs(t, "lowest", &lowest)
		d.ScanArgs(t, "highest", &highest)
		tr.reads = level.Range{Lowest: level.Level(lowest), Highest: level.Level(highest)}
		return ""
	case "entry":
		var b []byte
		fmt.Sscanf(d.CmdArgs[0].String(), "%x", &b)
		return tr.answer(tr.apply(b))
	case "snapshot":
		return tr.keep(d)
	case "restore":
		if d.HasArg("fresh") {
			tr.open()
		}
		if err := tr.restore(tr.snapshots[d.CmdArgs[0].String()]); err != nil {
			return fmt.Sprintf("refused: %v\n", err)
		}
		return tr.members()
	}
	return tr.show(t, d.Cmd)
}

func parseRules(t *testing.T, d *datadriven.TestData) (c kept.Change) {
	d.ScanArgs(t, "known", &c.Known)
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		r := retention.Rule{Filter: fields[0]}
		for _, f := range fields[1:] {
			fmt.Sscanf(f, "age=%d", &r.Age)
			fmt.Sscanf(f, "bytes=%d", &r.Bytes)
		}
		c.Rules = append(c.Rules, r)
	}
	return c
}

func parseRise(t *testing.T, d *datadriven.TestData) (x kept.Rise) {
	d.ScanArgs(t, "number", &x.Rules)
	d.MaybeScanArgs(t, "time", &x.Time)
	for line := range strings.Lines(d.Input) {
		var f kept.RuleFloor
		fmt.Sscan(line, &f.Rule, &f.Seq)
		x.Floors = append(x.Floors, f)
	}
	return x
}

func memberChange(t *testing.T, d *datadriven.TestData) members.Change {
	c := members.Change{ID: d.CmdArgs[1].Key, Voter: d.HasArg("voter"), HasData: d.HasArg("data")}
	for c.Op = members.Join; c.Op.String() != d.CmdArgs[0].Key; {
		c.Op++
	}
	d.MaybeScanArgs(t, "folder", (*uint64)(&c.Incarnation))
	return c
}

func (tr *transcript) members() string {
	var b strings.Builder
	list, _ := tr.fsm.Members()
	for _, m := range list {
		fmt.Fprintf(&b, "%s: folder %d, voter %v, removed %v, invited %v, changed %d\n", m.ID, m.Incarnation, m.Voter, m.Removed, m.Invited, m.Changed)
	}
	return b.String()
}

// plan names the files from seq first to seq last, or one that does not exist.
func (tr *transcript) plan(t *testing.T, d *datadriven.TestData) Plan {
	var first, last uint64
	p := Plan{Stores: 2}
	d.MaybeScanArgs(t, "first", &first)
	d.MaybeScanArgs(t, "last", &last)
	d.MaybeScanArgs(t, "stores", &p.Stores)
	for _, f := range tr.history.Manifest().Files {
		if f.First >= first && f.Last <= last {
			p.Inputs = append(p.Inputs, f.Hash)
		}
	}
	if len(p.Inputs) == 0 {
		p.Inputs = []segments.Hash{{1}}
	}
	if d.HasArg("without") {
		var i int
		d.ScanArgs(t, "without", &i)
		p.Inputs = slices.Delete(p.Inputs, i, i+1)
	}
	return p
}

// store replaces files by a store, which exists nowhere.
func (tr *transcript) store(t *testing.T, d *datadriven.TestData) segments.Edit {
	e := segments.Edit{Remove: tr.plan(t, d).Inputs}
	d.ScanArgs(t, "plan", &e.Plan)
	m := segments.FileMeta{Kind: segments.KindStore, Bytes: 1000, Hash: segments.Hash{5}, Level: 1, Topics: 1, Ancestor: "a"}
	for _, f := range tr.history.Manifest().Files {
		if !slices.Contains(e.Remove, f.Hash) {
			continue
		}
		if m.Messages == 0 {
			m.First, m.FirstTime = f.First, f.FirstTime
		}
		m.Last, m.LastTime = f.Last, f.LastTime
		m.Messages += f.Messages
	}
	if d.HasArg("short") {
		m.Messages--
	}
	e.Trims = d.HasArg("trims")
	if d.Input == "" {
		e.Add = []segments.FileMeta{m}
	}
	for line := range strings.Lines(d.Input) {
		fmt.Sscan(line, &m.Ancestor, &m.Messages)
		m.Hash[0]++
		e.Add = append(e.Add, m)
	}
	return e
}

// drop names files, or one that does not exist.
func (tr *transcript) drop(d *datadriven.TestData) (x Drop) {
	m := tr.history.Manifest()
	for line := range strings.Lines(d.Input) {
		var first uint64
		var file int
		fmt.Sscan(line, &first, &file)
		h := segments.Hash{1}
		if i := m.Find(first); i+file < len(m.Files) {
			h = m.Files[i+file].Hash
		}
		x.Files = append(x.Files, h)
	}
	return x
}

func (tr *transcript) keep(d *datadriven.TestData) string {
	if _, err := tr.fsm.Snapshot(); err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	s := tr.snapshot()
	name := d.CmdArgs[0].String()
	tr.snapshots[name] = s
	if len(d.CmdArgs) == 1 {
		return ""
	}
	other := d.CmdArgs[1].Key
	if string(tr.snapshots[other]) != string(s) {
		return fmt.Sprintf("differs from %s\n", other)
	}
	return fmt.Sprintf("same bytes as %s\n", other)
}

func (tr *transcript) show(t *testing.T, what string) string {
	var b strings.Builder
	switch what {
	case "topics":
		tr.fsm.EachTopic(0, 1000, func(id uint32, s TopicStats) {
			fmt.Fprintf(&b, "%d %s: %d messages, %d bytes, last %d\n", id, tr.topics.Name(id), s.Messages, s.Bytes, s.LastSeq)
		})
		if b.Len() == 0 {
			return "none\n"
		}
	case "producers":
		p := tr.fsm.state.producers
		for slot := p.oldest; slot != none; slot = p.slots.At(slot).newer {
			x := p.slots.At(slot)
			fmt.Fprintf(&b, "%s: last %d, seen %d;%s\n", strings.TrimRight(string(x.id[:]), "\x00"), x.last, x.seen, runs(x))
		}
		if b.Len() == 0 {
			return "none\n"
		}
	case "stream":
		for _, r := range tr.stream() {
			fmt.Fprintf(&b, "%d prev %d time %d %s %s\n", r.Seq(), r.Prev(), r.Time(), tr.topics.Name(r.Topic()), r.Payload())
		}
	case "pending":
		for _, s := range tr.history.Pending() {
			fmt.Fprintf(&b, "%d to %d, closed %v\n", s.First, s.Last, s.Closed)
		}
	case "view":
		v := tr.fsm.View()
		fmt.Fprintf(&b, "index %d, seq %d, time %d, producers %d, tip %d to %d\n", v.Index, v.LastSeq, v.LastTime, v.Producers, tr.tip.Floor(), tr.tip.Head())
		if v.Level != (level.Mark{}) {
			fmt.Fprintf(&b, "level %d by %s\n", v.Level.Level, v.Level.By)
		}
	case "kept":
		s := tr.fsm.Kept()
		fmt.Fprintf(&b, "rules of number %d\n", s.Rules.Number)
		for _, r := range s.Rules.List {
			fmt.Fprintf(&b, "%s age %d bytes %d\n", r.Filter, r.Age, r.Bytes)
		}
		for _, f := range s.Floors.List() {
			fmt.Fprintf(&b, "of %s everything before %d has gone\n", f.Filter, f.Seq)
		}
	case "active":
		p, _ := tr.fsm.Plan()
		if p.Index == 0 {
			return "no plan\n"
		}
		fmt.Fprintf(&b, "plan %d: %d files, at most %d stores\n", p.Index, len(p.Inputs), p.Stores)
		for _, f := range p.Floors.List() {
			fmt.Fprintf(&b, "without what is before %d of %s\n", f.Seq, f.Filter)
		}
	default:
		t.Fatalf("unknown command %q", what)
	}
	return b.String()
}

func runs(p *producer) string {
	var b strings.Builder
	for _, r := range append(slices.Clone(p.runs), p.newest) {
		fmt.Fprintf(&b, " [%d to %d %v %d", r.first, r.end()-1, r.kind, r.seq)
		if r.kind == Stored {
			fmt.Fprintf(&b, " x%d", r.detail)
		}
		b.WriteByte(']')
	}
	return b.String()
}

func (tr *transcript) files() string {
	var b strings.Builder
	for _, f := range tr.history.Manifest().Files {
		fmt.Fprintf(&b, "file %d to %d", f.First, f.Last)
		if f.Kind == segments.KindStore {
			fmt.Fprintf(&b, ": a store of %d messages below %s", f.Messages, f.Ancestor)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// answer prints a Result, and what the machine stopped for.
func (tr *transcript) answer(r Result) string {
	var b strings.Builder
	for i, list := range r.Outcomes {
		if len(r.Outcomes) > 1 {
			fmt.Fprintf(&b, "batch %d\n", i+1)
		}
		for _, o := range list {
			fmt.Fprintf(&b, "%v", o.Kind)
			if o.Kind != DuplicateForgotten && o.Kind != ProducerUnknown {
				fmt.Fprintf(&b, " %d", o.Seq)
			}
			if o.Kind == ConditionFailed {
				fmt.Fprintf(&b, " at message %d", o.Index)
			}
			fmt.Fprintf(&b, ", units %d\n", o.Units)
		}
	}
	if r.Err != nil {
		fmt.Fprintf(&b, "error: %v\n", r.Err)
	}
	return b.String()
}

// stream reads all messages of the history.
func (f *fixture) stream() []message.Record {
	f.tb.Helper()
	all, err := topic.ParseFilters("**")
	if err != nil {
		f.tb.Fatal(err)
	}
	r := f.history.NewReader(topic.NewSelection(f.topics, all), f.history.Oldest()-1)
	defer r.Close()
	var out []message.Record
	for {
		b, p, err := r.Read(nil, 1<<20)
		if err != nil {
			f.tb.Fatal(err)
		}
		if p.Count == 0 {
			return out
		}
		for len(b) > 0 {
			out = append(out, first(b))
			b = skip(b, 1)
		}
	}
}

func parseBatches(t *testing.T, input string) [][]byte {
	var batches [][]byte
	var b message.Builder
	var producer message.ProducerID
	var number uint64
	flush := func() {
		if b.Count() > 0 {
			batches = append(batches, b.Encode(nil, producer))
		}
		b.Reset()
		producer, number = message.ProducerID{}, 0
	}
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		if rest, ok := strings.CutPrefix(line, "batch"); ok {
			flush()
			for _, arg := range strings.Fields(rest) {
				key, value, _ := strings.Cut(arg, "=")
				switch key {
				case "producer":
					copy(producer[:], value)
				case "number":
					fmt.Sscanf(value, "%d", &number)
				default:
					t.Fatalf("unknown argument %q", arg)
				}
			}
			continue
		}
		unit, times := line, 1
		if head, rest, ok := strings.Cut(line, " * "); ok {
			fmt.Sscanf(head, "%d", &times)
			unit = rest
		}
		for range times {
			b.Add(number, parseUnit(unit)...)
			if number > 0 {
				number++
			}
		}
	}
	flush()
	return batches
}

func parseUnit(line string) (unit []message.Entry) {
	for _, m := range strings.Split(line, ", ") {
		name, payload, _ := strings.Cut(m, " ")
		e := message.Entry{Draft: message.Draft{Payload: []byte(payload)}}
		if topic, want, ok := strings.Cut(name, "?"); ok {
			name = topic
			e.Expected = new(uint64)
			fmt.Sscanf(want, "%d", e.Expected)
		}
		e.Topic = name
		unit = append(unit, e)
	}
	return unit
}
