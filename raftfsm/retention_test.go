package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"chorale/message"
	"chorale/segments"

	"pgregory.net/rapid"
)

// keptBy is what may go by the words of Retention alone: range after range, from the
// oldest on, as long as one of the limits is broken.
func keptBy(r Retention, ranges []segments.Range, now int64) (oldest uint64) {
	size := func(list []segments.Range) (n int64) {
		for _, x := range list {
			for _, f := range x.Files {
				n += f.Bytes
			}
		}
		return n
	}
	for len(ranges) > 1 {
		newest := ranges[0].Files[0].LastTime
		if !(r.Age > 0 && now-newest > r.Age) && !(r.Bytes > 0 && size(ranges[1:]) >= r.Bytes) {
			break
		}
		ranges = ranges[1:]
	}
	if len(ranges) == 0 {
		return 1
	}
	return ranges[0].First
}

func rangeOf(first, last uint64, time, bytes int64, files int) (out []segments.FileMeta) {
	for i := range files {
		out = append(out, segments.FileMeta{First: first, Last: last, LastTime: time, Bytes: bytes, Hash: segments.Hash{byte(first), byte(i)}})
	}
	return out
}

func TestRetentionOldest(t *testing.T) {
	m := segments.Manifest{Files: slices.Concat(rangeOf(11, 20, 100, 10, 2), rangeOf(21, 30, 200, 10, 1), rangeOf(31, 40, 300, 10, 3))}
	for _, c := range []struct {
		retention Retention
		now       int64
		want      uint64
	}{
		{Retention{}, 1000, 11},
		{Retention{Age: 900}, 1000, 11}, // as old as the limit is not older
		{Retention{Age: 899}, 1000, 21},
		{Retention{Age: 1}, 1000, 31}, // the newest stays
		{Retention{Age: math.MaxInt64}, 0, 11},
		{Retention{Bytes: 41}, 0, 11},
		{Retention{Bytes: 40}, 0, 21},
		{Retention{Bytes: 31}, 0, 21},
		{Retention{Bytes: 30}, 0, 31},
		{Retention{Bytes: 1}, 0, 31},
		{Retention{Age: 899, Bytes: 30}, 1000, 31}, // either limit
		{Retention{Age: 1, Bytes: 100}, 1000, 31},
	} {
		if got := c.retention.Oldest(m, c.now); got != c.want {
			t.Errorf("%+v at %d: %d, want %d", c.retention, c.now, got, c.want)
		}
	}
	if got := (Retention{Age: 1}).Oldest(segments.Manifest{}, 1000); got != 1 {
		t.Errorf("without files: %d", got)
	}
}

// A random life of two replicas, one of which restarts from snapshots all the time:
// what is kept is exactly what the naive model keeps, the chain of each topic is whole
// from the oldest seq on, and both replicas have the same snapshots.
func TestRetentionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := newFixture(rt, 400), newFixture(rt, 400)
		both := func(entry []byte) Result {
			ra, rb := a.apply(entry), b.apply(entry)
			if fmt.Sprint(ra.Err) != fmt.Sprint(rb.Err) {
				rt.Fatalf("%v on one replica, %v on the other", ra.Err, rb.Err)
			}
			return ra
		}
		var retention Retention
		now, oldest := int64(0), uint64(1)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now += rapid.Int64Range(0, 50).Draw(rt, "time passes")
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			default:
				var batch message.Builder
				for range rapid.IntRange(1, 8).Draw(rt, "messages") {
					batch.Add(0, message.Entry{Topic: fmt.Sprint("a/", rapid.IntRange(0, 3).Draw(rt, "topic")), Draft: message.Draft{Payload: make([]byte, 40)}})
				}
				both(EncodePublish(now, [][]byte{batch.Encode(nil, message.ProducerID{})}))
			case 1:
				a.build()
				b.build()
			case 2:
				r := Retention{Age: rapid.Int64Range(-1, 200).Draw(rt, "age"), Bytes: rapid.Int64Range(-1, 4000).Draw(rt, "bytes")}
				if err := both(EncodeRetain(r)).Err; (err == nil) != (r.Age >= 0 && r.Bytes >= 0) {
					rt.Fatalf("%+v: %v", r, err)
				} else if err == nil {
					retention = r
				}
			case 3:
				m := a.history.Manifest()
				keep := keptBy(retention, m.Ranges(), max(now, a.fsm.View().LastTime))
				x := Expiry{Time: now, Oldest: rapid.OneOf(rapid.Just(keep), rapid.Uint64Range(0, a.fsm.View().LastSeq+2)).Draw(rt, "oldest")}
				border := slices.ContainsFunc(m.Files, func(f segments.FileMeta) bool { return f.First == x.Oldest })
				err := both(EncodeExpire(x)).Err
				if want := x.Oldest > oldest && x.Oldest <= keep && border; (err == nil) != want {
					rt.Fatalf("expire before %d, of which %d must stay: %v", x.Oldest, keep, err)
				} else if want {
					oldest = x.Oldest
				} else if !errors.Is(err, ErrNotExpired) && !errors.Is(err, ErrGoneAlready) {
					rt.Fatal(err)
				}
			case 4:
				s := b.snapshot()
				if rapid.Bool().Draw(rt, "the process ends") {
					b.open()
				}
				if err := b.restore(s); err != nil {
					rt.Fatal(err)
				}
			}
			if got := a.history.Oldest(); got != oldest || b.history.Oldest() != oldest {
				rt.Fatalf("the oldest is %d, on the other replica %d, want %d", got, b.history.Oldest(), oldest)
			}
		}
		whole(rt, a, oldest)
		whole(rt, b, oldest)
		a.build()
		b.build()
		if !bytes.Equal(a.snapshot(), b.snapshot()) {
			rt.Fatal("the replicas have different snapshots")
		}
	})
}

// whole checks that a replica has everything from oldest on, provably: a first message
// of a topic follows one before oldest, each other one the one before it.
func whole(rt *rapid.T, f *fixture, oldest uint64) {
	next, last := oldest, map[uint32]uint64{}
	for _, r := range f.stream() {
		if prev := last[r.Topic()]; r.Seq() != next || prev > 0 && r.Prev() != prev || prev == 0 && r.Prev() >= oldest {
			rt.Fatalf("message %d, prev %d: want %d, prev %d", r.Seq(), r.Prev(), next, prev)
		}
		last[r.Topic()] = r.Seq()
		next++
	}
	if end := f.fsm.View().LastSeq; next != end+1 {
		rt.Fatalf("the stream ends before %d, its end is %d", next, end)
	}
}

// A snapshot with a retention is of version 3, with a plan and without; without a
// retention it is as old as before.
func TestRetentionInSnapshot(t *testing.T) {
	f := newFixture(t, 2_000)
	for _, e := range randomEntries(4, 12) {
		f.must(e)
	}
	f.build()
	plan := EncodePlan(Plan{Inputs: []segments.Hash{f.history.Manifest().Files[0].Hash}, Stores: 2})
	want := Retention{Age: 7, Bytes: 1 << 40}
	for i, step := range []struct {
		entry   []byte
		version byte
	}{
		{EncodeRetain(want), 3}, {plan, 3}, {EncodeRetain(Retention{}), 2}, {EncodeRetain(Retention{Bytes: 1}), 3},
	} {
		f.must(step.entry)
		s := f.snapshot()
		if s[8] != step.version {
			t.Errorf("step %d: version %d, want %d", i, s[8], step.version)
		}
		before, plan := f.fsm.View(), f.fsm.state.plan
		f.open()
		if err := f.restore(s); err != nil {
			t.Fatal(err)
		}
		if f.fsm.View() != before || f.fsm.state.plan.Index != plan.Index || !bytes.Equal(f.snapshot(), s) {
			t.Errorf("step %d: %+v after a restart, %+v before", i, f.fsm.View(), before)
		}
		for at := range 200 {
			damaged := bytes.Clone(s)
			damaged[at] ^= 0x41
			f.open()
			if err := f.restore(reseal(damaged)); err == nil && !bytes.Equal(f.snapshot(), reseal(damaged)) {
				t.Errorf("step %d, byte %d: what was restored is not what was read", i, at)
			}
		}
		f.open()
		if err := f.restore(s); err != nil {
			t.Fatal(err)
		}
	}
}
