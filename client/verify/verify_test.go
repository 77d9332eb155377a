package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"chorale/api"
	"chorale/message"
	"chorale/topic"

	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"
)

// stream makes n messages over topics "t/0" .. in turn or at random; message i has
// seq i+1.
func stream(n, topics int, pick func(i int) int) (records []message.Record, names []*api.TopicName) {
	last := make([]uint64, topics)
	for i := range n {
		id := pick(i)
		seq := uint64(i + 1)
		records = append(records, message.NewRecord(message.Draft{Payload: []byte(fmt.Sprint("message ", i))}, uint32(id), seq, last[id], int64(seq)))
		last[id] = seq
	}
	for id := range topics {
		names = append(names, &api.TopicName{Id: uint32(id), Name: fmt.Sprintf("t/%d", id)})
	}
	return records, names
}

func frame(scanned, tip uint64, names []*api.TopicName, records ...message.Record) *api.Frame {
	var b []byte
	for _, r := range records {
		b = message.AppendPadded(b, r)
	}
	return &api.Frame{Topics: names, Records: mem.SliceBuffer(b), ScannedSeq: scanned, TipSeq: tip}
}

func filters(t interface{ Fatal(...any) }, list ...string) *topic.Filters {
	f, err := topic.ParseFilters(list...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAcceptsExactlyTheFilteredStream: the filtered stream passes, cut into frames
// anywhere; any one change of what arrives is found: a message taken out, repeated,
// swapped with its neighbour, or of another stream.
func TestAcceptsExactlyTheFilteredStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		picks := rapid.SliceOfN(rapid.IntRange(0, 4), 2, 60).Draw(t, "topics of the messages")
		all, names := stream(len(picks), 5, func(i int) int { return picks[i] })
		start := rapid.IntRange(0, len(all)-1).Draw(t, "start")
		f := filters(t, rapid.SampledFrom([]string{"**", "t/1", "t/*", "t/2"}).Draw(t, "filter"))
		var wanted []message.Record
		for _, r := range all[start:] {
			if f.Match(names[r.Topic()].Name) {
				wanted = append(wanted, r)
			}
		}
		arrives := slices.Clone(wanted)
		lie := rapid.SampledFrom([]string{"none", "missing", "repeated", "swapped", "foreign"}).Draw(t, "lie")
		at := rapid.IntRange(0, max(len(wanted)-1, 0)).Draw(t, "at")
		provable := len(wanted) > at && lie != "none"
		switch {
		case !provable:
		case lie == "missing":
			arrives = slices.Delete(arrives, at, at+1)
			// The last message of a topic has nothing behind it that could miss it.
			provable = slices.ContainsFunc(wanted[at+1:], func(r message.Record) bool { return r.Prev() == wanted[at].Seq() })
		case lie == "repeated":
			arrives = slices.Insert(arrives, at, arrives[at])
		case lie == "swapped":
			if provable = at > 0; provable {
				arrives[at-1], arrives[at] = arrives[at], arrives[at-1]
			}
		case lie == "foreign":
			r := wanted[at]
			arrives[at] = message.NewRecord(message.Draft{}, r.Topic(), r.Seq(), r.Prev()+1, r.Time())
			provable = r.Prev() >= uint64(start) // else it is below the start, where nothing is known
		}
		v := New(f, uint64(start), false, 0, nil)
		err := deliver(t, v, arrives, names, uint64(len(all)))
		if (err != nil) != provable {
			t.Fatalf("%s at %d: %v", lie, at, err)
		}
		if err == nil && v.Scanned() != uint64(len(all)) {
			t.Fatalf("scanned %d", v.Scanned())
		}
	})
}

func deliver(t *rapid.T, v *Verifier, arrives []message.Record, names []*api.TopicName, tip uint64) *Finding {
	for len(arrives) > 0 {
		n := rapid.IntRange(1, len(arrives)).Draw(t, "frame")
		scanned := arrives[n-1].Seq()
		for _, r := range arrives[:n] { // an honest mark, whatever order
			scanned = max(scanned, r.Seq())
		}
		records, count, bad := v.Accept(frame(scanned, tip, names, arrives[:n]...), false)
		if bad != nil {
			return bad
		}
		if count != n || len(records) != len(frame(0, 0, nil, arrives[:n]...).RecordBytes()) {
			t.Fatalf("%d of %d messages", count, n)
		}
		arrives = arrives[n:]
	}
	_, _, bad := v.Accept(frame(tip, tip, nil), false)
	return bad
}

// TestFloorsExplainHoles: what lies below a floor that was told may be missing, and the program
// is told of which topic; whatever else is missing is found.
func TestFloorsExplainHoles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		picks := rapid.SliceOfN(rapid.IntRange(0, 4), 2, 60).Draw(t, "topics of the messages")
		all, names := stream(len(picks), 5, func(i int) int { return picks[i] })
		start := rapid.Uint64Range(0, uint64(len(all)-1)).Draw(t, "start")
		told := []*api.Floor{{
			Filter: rapid.SampledFrom([]string{"t/1", "t/**", "t/2/**", "s/**"}).Draw(t, "filter"), Seq: rapid.Uint64Range(1, uint64(len(all)+1)).Draw(t, "floor"),
		}}
		gone := func(r message.Record) bool {
			return r.Seq() < told[0].Seq && filters(t, told[0].Filter).Match(names[r.Topic()].Name)
		}
		var arrives []message.Record
		missed := map[string]uint64{} // topic -> the newest message that had gone
		want := map[string]uint64{}   // the same, of those that a later message shows
		for _, r := range all[start:] {
			name := names[r.Topic()].Name
			if gone(r) && rapid.Bool().Draw(t, "is missing") { // a node that is behind delivers it
				missed[name] = r.Seq()
				continue
			}
			if last := missed[name]; last > 0 && r.Prev() == last {
				want[name] = last
			}
			arrives = append(arrives, r)
		}
		lost := rapid.IntRange(-1, len(arrives)-1).Draw(t, "lost")
		provable := false
		if lost >= 0 {
			r := arrives[lost]
			arrives = slices.Delete(arrives, lost, lost+1)
			provable = !gone(r) && slices.ContainsFunc(arrives, func(next message.Record) bool { return next.Prev() == r.Seq() })
		}
		got := map[string]uint64{}
		v := New(filters(t, "**"), start, false, 0, func(e Gone) { got[e.Topic] = e.Last })
		if _, _, bad := v.Accept(&api.Frame{ScannedSeq: start, TipSeq: uint64(len(all)), Floors: told}, false); bad != nil {
			t.Fatal(bad)
		}
		err := deliver(t, v, arrives, names, uint64(len(all)))
		if (err != nil) != provable {
			t.Fatalf("lost %d: %v", lost, err)
		}
		if lost < 0 && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("told of %v, want %v", got, want)
		}
	})
}

// TestBadFloors: a node cannot say that more has gone than there is, or of what no rule is for.
func TestBadFloors(t *testing.T) {
	for _, f := range []*api.Floor{{Filter: "a", Seq: 12}, {Filter: "a", Seq: 0}, {Filter: "**", Seq: 3}, {Filter: "a/*/b", Seq: 3}, {Filter: "", Seq: 3}} {
		v := New(filters(t, "**"), 0, false, 0, nil)
		if _, _, bad := v.Accept(&api.Frame{ScannedSeq: 0, TipSeq: 10, Floors: []*api.Floor{f}}, false); bad == nil {
			t.Errorf("%v was taken", f)
		}
	}
}

func TestBoundedEndsThere(t *testing.T) {
	all, names := stream(10, 1, func(int) int { return 0 })
	v := New(filters(t, "**"), 2, true, 6, nil)
	if _, n, bad := v.Accept(frame(4, 10, names, all[2:4]...), false); n != 2 || bad != nil || v.Finished() {
		t.Fatal(n, bad, v.Finished())
	}
	// Another node does not know the end.
	if _, n, bad := v.Accept(frame(10, 10, names, all[4:]...), true); n != 2 || bad != nil || !v.Finished() || v.Scanned() != 6 {
		t.Fatal(n, bad, v.Scanned())
	}
	if v := New(filters(t, "**"), 6, true, 6, nil); !v.Finished() {
		t.Fatal("nothing to deliver is not the end")
	}
}

func TestNamesOutliveGrowth(t *testing.T) {
	v := New(filters(t, "**"), 0, false, 0, nil)
	v.announce(&api.TopicName{Id: 3, Name: "a"})
	before := v.Topics()
	v.announce(&api.TopicName{Id: 500_000, Name: "b"})
	after := v.Topics()
	if before.Name(3) != "a" || after.Name(3) != "a" || after.Name(500_000) != "b" {
		t.Fatal("a name is gone")
	}
}

// BenchmarkAccept verifies frames of 256 KiB of messages of 128 B over 1,000 topics.
func BenchmarkAccept(b *testing.B) {
	const perFrame, topics = 1489, 1000
	rng := rand.New(rand.NewPCG(1, 2))
	last := make([]uint64, topics)
	payload := make([]byte, 128)
	_, names := stream(0, topics, nil)
	var frames []*api.Frame
	seq := uint64(0)
	for len(frames) < 64 {
		var records []message.Record
		for range perFrame {
			seq++
			id := rng.IntN(topics)
			records = append(records, message.NewRecord(message.Draft{Payload: payload}, uint32(id), seq, last[id], int64(seq)))
			last[id] = seq
		}
		frames = append(frames, frame(seq, seq, nil, records...))
	}
	frames[0].Topics = names
	b.ReportAllocs()
	var v *Verifier
	for i := range b.N {
		if i%len(frames) == 0 {
			v = New(filters(b, "**"), 0, false, 0, nil)
		}
		if _, _, bad := v.Accept(frames[i%len(frames)], false); bad != nil {
			b.Fatal(bad)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perFrame), "ns/message")
}
