package segments

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"chorale/disk"
	"chorale/message"
	"chorale/segments/inspect"
	"chorale/topic"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts plays the files of testdata: the life of a history in a form
// that a person can read. Run with -rewrite to refresh them, and read the diff.
//
// How much is read of segments depends on whether their tables are still known, and the
// garbage collector takes these at any time: so it runs when a transcript says so (cold),
// and not otherwise.
func TestTranscripts(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		p := &play{fsys: disk.NewMem(1), copies: map[Hash][]byte{}}
		p.stream = newStream(t, p.fsys.Mount())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return p.run(t, d)
		})
	})
}

// play is a node, and what its peer has.
type play struct {
	*stream
	fsys   *disk.Mem
	target int
	copies map[Hash][]byte
	edit   Edit // of the plan that was built last
}

func (p *play) run(t *testing.T, d *datadriven.TestData) string {
	p.warns = nil
	out := p.command(t, d)
	for _, w := range p.warns {
		out += fmt.Sprintf("warning: %v\n", w)
	}
	if out == "" {
		return "ok\n"
	}
	return out
}

func (p *play) command(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "target":
		d.ScanArgs(t, "bytes", &p.target)
		p.log.SetTarget(int64(p.target))
		return ""
	case "publish":
		return p.entryOf(t, d)
	case "build":
		more, err := p.log.BuildOne()
		return answer(p.proposed()+unless(more || err != nil, "nothing to build\n"), err)
	case "install":
		return p.installAll(t)
	case "compact":
		return p.compactOf(t, d)
	case "commit":
		refused, mismatch := p.log.Install(p.edit)
		return answer("", refused) + answer("", mismatch)
	case "tidy":
		return answer("", p.log.Tidy(0, 0))
	case "expire":
		return p.expire()
	case "read":
		return p.readOnce(t, d)
	case "seek":
		var at int
		d.ScanArgs(t, "time", &at)
		after, err := p.log.SeekTime(int64(at))
		return answer(fmt.Sprintf("behind seq %d\n", after), err)
	case "state":
		return p.state()
	case "ls":
		entries, err := p.fsys.List("data")
		var out strings.Builder
		for _, e := range entries {
			fmt.Fprintf(&out, "%s %d\n", e.Name(), e.Size())
		}
		return answer(out.String(), err)
	case "inspect":
		var out strings.Builder
		err := inspect.File(p.fsys.Mount(), p.fileName(t, d), &out, inspect.Options{Topics: d.HasArg("topics"), JSON: d.HasArg("json")})
		return answer(trimLines(out.String()), err)
	}
	return p.trouble(t, d)
}

// trouble is what goes wrong, and what is done about it.
func (p *play) trouble(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "flip":
		var at int64
		d.ScanArgs(t, "byte", &at)
		return answer("", p.fsys.FlipBit(p.fileName(t, d), at*8))
	case "lose":
		return answer("", p.fsys.Lose(p.fileName(t, d)))
	case "fault":
		return answer("", p.fsys.Fault(d.Input))
	case "put":
		var name string
		d.ScanArgs(t, "name", &name)
		return answer("", p.fsys.PutFile("data/"+name, []byte("?")))
	case "crash":
		p.fsys.Crash()
		p.fsys.ClearFaults()
		return ""
	case "restart":
		return p.restart()
	case "import":
		var out strings.Builder
		for _, m := range p.log.Missing() {
			fmt.Fprintf(&out, "%s\n", answer(m.Name(), importFile(p.log, m, p.copies[m.Hash])))
		}
		return out.String()
	}
	t.Fatalf("unknown command %s", d.Cmd)
	return ""
}

func answer(out string, err error) string {
	if err != nil {
		return out + "error: " + err.Error() + "\n"
	}
	return out
}

func unless(ok bool, text string) string {
	if ok {
		return ""
	}
	return text
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\n\n", "\n")
}

// entryOf publishes an entry; a line is a topic, and perhaps how often.
func (p *play) entryOf(t *testing.T, d *datadriven.TestData) string {
	for line := range strings.Lines(d.Input) {
		name, n := "", 1
		if _, err := fmt.Sscan(line, &name, &n); name == "" {
			t.Fatal(err)
		}
		for range n {
			p.publish(name, 50)
		}
	}
	p.log.Publish()
	p.time++
	return answer("", p.log.CutIfFull())
}

func (p *play) proposed() string {
	var out strings.Builder
	for _, m := range p.log.Proposals() {
		fmt.Fprintf(&out, "proposed: %s\n", m.Name())
	}
	return out.String()
}

func (p *play) installAll(t *testing.T) string {
	var out strings.Builder
	for _, m := range p.log.Proposals() {
		refused, mismatch := p.log.Install(Edit{Add: []FileMeta{m}})
		fmt.Fprintf(&out, "%d to %d%s%s\n", m.First, m.Last, answer("", refused), answer("", mismatch))
		b, err := p.fsys.ReadFile("data/" + m.Name())
		check(t, err)
		p.copies[m.Hash] = b
	}
	return out.String()
}

// readOnce reads to the end or the error, and counts what the disk gave; cold: also the
// tables of segments that were known.
func (p *play) readOnce(t *testing.T, d *datadriven.TestData) string {
	var after, limit uint64 = 0, 1 << 20
	d.MaybeScanArgs(t, "after", &after)
	if d.HasArg("cold") {
		runtime.GC()
	}
	var out strings.Builder
	r := p.log.NewReader(topic.NewSelection(p.table, filters(t, strings.Fields(d.Input)...)), after)
	defer r.Close()
	delivered := 0
	for {
		b, progress, err := r.Read(nil, int(limit))
		delivered += len(b)
		for len(b) > 0 {
			rec, rest, splitErr := message.Split(b)
			check(t, splitErr)
			fmt.Fprintf(&out, "%d %s\n", rec.Seq(), p.table.Name(rec.Topic()))
			b = rest
		}
		if err != nil || progress.Scanned == p.log.End() {
			fmt.Fprintf(&out, "scanned %d, delivered %d bytes, read %d from files\n", progress.Scanned, delivered, r.BytesRead())
			return answer(out.String(), err)
		}
	}
}

// compactOf builds a layer of some ranges; elsewhere: on another node, whose files the
// peer has; deviating: not as the plan says. Topics go to stores by their first levels.
func (p *play) compactOf(t *testing.T, d *datadriven.TestData) string {
	from, to, levels := 1, 0, 1
	d.MaybeScanArgs(t, "from", &from)
	d.ScanArgs(t, "to", &to)
	d.MaybeScanArgs(t, "levels", &levels)
	names := map[string]int{}
	ranges := p.log.Manifest().Ranges()[from-1 : to]
	volumes, err := p.log.Volumes(hashes(ranges))
	for _, v := range volumes {
		key := strings.Join(strings.SplitN(v.Name, "/", levels+1)[:min(levels, 1+strings.Count(v.Name, "/"))], "/")
		if _, ok := names[key]; !ok {
			names[key] = len(names)
		}
		names[v.Name] = names[key]
	}
	if err != nil {
		return answer("", err)
	}
	edit, err := p.buildLayer(p.log, ranges, len(names), func(id uint32) int { return names[p.table.Name(id)] })
	var out strings.Builder
	for _, m := range edit.Add {
		fmt.Fprintf(&out, "%d to %d, level %d: %d messages of %d topics below %q\n", m.First, m.Last, m.Level, m.Messages, m.Topics, m.Ancestor)
		b, err := p.fsys.ReadFile("data/" + m.Name())
		check(t, err)
		p.copies[m.Hash] = b
	}
	if d.HasArg("elsewhere") {
		check(t, p.log.Tidy(0, 0))
	}
	if !d.HasArg("deviating") {
		p.edit = edit
	}
	return answer(out.String(), err)
}

func hashes(ranges []Range) (out []Hash) {
	for _, x := range ranges {
		for _, m := range x.Files {
			out = append(out, m.Hash)
		}
	}
	return out
}

func (p *play) expire() string {
	refused, mismatch := p.log.Install(Edit{Remove: hashes(p.log.Manifest().Ranges()[:1])})
	return answer("", refused) + answer("", mismatch)
}

func (p *play) state() string {
	var out strings.Builder
	v := p.log.view.Load()
	for i, m := range v.manifest.Files {
		where := "here"
		if v.files[i] == nil {
			where = "not here"
		}
		what := "file "
		if m.Kind == KindStore {
			what, where = "store", fmt.Sprintf("below %q: %s", m.Ancestor, where)
		}
		fmt.Fprintf(&out, "%s   %d to %d: %s\n", what, m.First, m.Last, where)
	}
	for _, x := range v.kept {
		fmt.Fprintf(&out, "kept    %d to %d\n", x.first, x.last)
	}
	for _, s := range v.stretches {
		what := "open"
		switch {
		case s.built != nil:
			what = "built, waits for its edit"
		case s.closed:
			what = "cut, waits for its file"
		}
		fmt.Fprintf(&out, "stretch %d to %d: %s\n", s.First(), s.Last(), what)
	}
	st := p.log.Stats()
	fmt.Fprintf(&out, "oldest %d, durable %d, end %d; missing %d, stray %d", st.Oldest, st.DurableEnd, st.End, st.Missing, st.Stray)
	if st.Built > 0 {
		fmt.Fprintf(&out, ", built %d", st.Built)
	}
	out.WriteByte('\n')
	return out.String()
}

// restart opens the folder again, with the state that a snapshot would hold.
func (p *play) restart() string {
	manifest, pending := p.log.Manifest(), p.log.Pending()
	l, err := p.open(p.fsys.Mount())
	if err != nil {
		return answer("", err)
	}
	p.log = l
	l.SetTarget(int64(p.target))
	if err := l.Restore(manifest, manifest.End()+1); err != nil {
		return answer("", err)
	}
	for _, s := range pending {
		for _, r := range p.all[s.First-1 : s.Last] {
			l.Append(p.table.Partition(r.Topic()), r)
		}
		if s.Closed {
			if err := l.Cut(); err != nil {
				return answer("", err)
			}
		}
	}
	l.Publish()
	p.upToDate()
	return ""
}

// fileName is the file argument: its number in the manifest, from 1.
func (p *play) fileName(t *testing.T, d *datadriven.TestData) string {
	var n int
	d.ScanArgs(t, "file", &n)
	return "data/" + p.log.Manifest().Files[n-1].Name()
}
