package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorale/api"
	"chorale/message"
	"chorale/topic"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var ctx = context.Background()

// filled is a cluster whose topics t/0 .. t/4 and u take turns; message i has the
// payload "i" and the seq i+1.
func filled(t *testing.T, nodes, messages int) *fakeCluster {
	c := newCluster(t, nodes)
	c.fill(messages)
	return c
}

func (c *fakeCluster) fill(messages int) {
	for range messages {
		i := len(c.payloads())
		name := fmt.Sprintf("t/%d", i%6)
		if i%6 == 5 {
			name = "u"
		}
		c.store(name, fmt.Sprint(i))
	}
}

func subscribe(t *testing.T, c *Client, o SubscribeOptions) *Subscription {
	t.Helper()
	s, err := c.Subscribe(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// rest reads a subscription to its end.
func rest(t *testing.T, s *Subscription) (payloads []string) {
	t.Helper()
	for m, err := range s.Messages(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, string(m.Payload))
	}
	return payloads
}

func TestSubscribeFromEachStart(t *testing.T) {
	c := filled(t, 1, 20)
	cl := c.dial(t, Options{})
	for name, test := range map[string]struct {
		from    Start
		filters []string
		want    string
	}{
		"first":     {First(), []string{"t/1"}, "1 7 13 19"},
		"after":     {AfterSeq(8), []string{"t/1", "u"}, "11 13 17 19"},
		"time":      {FromTime(time.Unix(0, 14_000)), []string{"t/**"}, "13 14 15 16 18 19"},
		"year 1":    {FromTime(time.Time{}), []string{"t/1"}, "1 7 13 19"},
		"year 1500": {FromTime(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)), []string{"t/1"}, "1 7 13 19"},
		"year 2999": {FromTime(time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)), []string{"**"}, ""},
		"tip":       {Tip(), []string{"**"}, ""},
		"no match":  {First(), []string{"x/**"}, ""},
		"one level": {AfterSeq(16), []string{"*/1", "*"}, "17 19"},
	} {
		s := subscribe(t, cl, SubscribeOptions{Filters: test.filters, From: test.from, UntilTip: true})
		if got := strings.Join(rest(t, s), " "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if p := s.Position(); p.Seq != 20 || p.Cluster != "c1" {
			t.Errorf("%s: position %v", name, p)
		}
		if _, err := s.Next(ctx); err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeliveryCarriesTheMessage(t *testing.T) {
	c := newCluster(t, 1)
	cl := c.dial(t, Options{})
	p := publisher(t, cl, PublisherOptions{})
	headers := []Header{{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte("2")}}
	p.Publish(ctx, Message{Topic: "x/y", Payload: []byte("first")})
	p.Publish(ctx, Message{Topic: "x/y", Headers: headers, Payload: []byte("second")})
	p.Publish(ctx, Message{Topic: "z"})
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, cl, SubscribeOptions{Filters: []string{"x/**"}})
	first, err := s.Next(ctx)
	if err != nil || s.Position().Seq != 1 {
		t.Fatal(err, s.Position())
	}
	m, err := s.Next(ctx)
	if err != nil || m.Seq != 2 || m.Prev != 1 || m.Topic != "x/y" || m.Time.UnixNano() != 2000 || string(m.Payload) != "second" {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, d := range []Delivery{m, m.Clone()} {
		if fmt.Sprint(d.Headers) != fmt.Sprint(headers) {
			t.Fatal(d.Headers)
		}
	}
	if string(first.Payload) != "first" {
		t.Fatal("a delivered message changed")
	}
	// Behind the last message of a response nothing more of it can match.
	if s.Position().Seq != 3 {
		t.Fatal(s.Position())
	}
}

// TestDeliveredIsTheFilteredStream: whatever happens to nodes and connections, what
// arrives over any number of subscriptions, each resumed where the last one
// stopped, is filter(stream) from the start on.
func TestDeliveredIsTheFilteredStream(t *testing.T) {
	for seed := range *seeds {
		inBubble(t, fmt.Sprint("seed ", seed), func(t *testing.T) { deliverAnyway(t, seed) })
	}
}

func deliverAnyway(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	c := filled(t, 3, rng.IntN(200))
	for i, n := range c.nodes {
		fate, trouble := rand.New(rand.NewPCG(seed, uint64(i+1))), rng.IntN(30)
		n.frameMessages = 1 + rng.IntN(20)
		n.lag.Store(int64(rng.IntN(40)))
		n.onFrame = func(m *api.SubscribeResponse) error {
			n.cluster.script.Lock()
			defer n.cluster.script.Unlock()
			if fate.IntN(100) >= trouble {
				return nil
			}
			return []error{errMute, status.Error(codes.Unavailable, "cut"), status.Error(codes.Internal, "odd"), io.EOF}[fate.IntN(4)]
		}
	}
	lists := [][]string{{"**"}, {"t/**"}, {"t/3"}, {"u", "t/0"}, {"nothing"}}
	list := lists[rng.IntN(len(lists))]
	start := uint64(rng.IntN(len(c.payloads()) + 1))
	done := make(chan struct{})
	total := len(c.payloads()) + rng.IntN(300)
	go func() {
		defer close(done)
		for i := len(c.payloads()); i < total; i++ {
			c.fill(1)
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		for _, n := range c.nodes { // let everyone catch up
			n.lag.Store(0)
		}
		c.fill(1)
	}()
	cl := c.dial(t, Options{})
	from := AfterSeq(start)
	var got []uint64
	for position := start; position < uint64(total+1); {
		s, err := cl.Subscribe(ctx, SubscribeOptions{Filters: list, From: from})
		if errors.Is(err, ErrOutOfRange) {
			time.Sleep(time.Second)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, readSome(t, s, 1+rng.IntN(100))...)
		token := s.Position()
		position = token.Seq
		from = Resume(token)
		s.Close()
	}
	<-done
	if want := c.matching(list, start); !slices.Equal(got, want) {
		t.Fatalf("delivered %v\nwant      %v", got, want)
	}
}

// readSome reads messages until there were so many, or nothing came for a second.
func readSome(t *testing.T, s *Subscription, count int) (seqs []uint64) {
	for len(seqs) < count {
		short, cancel := context.WithTimeout(ctx, time.Second)
		if len(seqs)%3 == 0 {
			b, err := s.NextBatch(short)
			if err == nil {
				for m := range b.All() {
					seqs = append(seqs, m.Seq)
				}
				b.Release()
			}
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				return seqs
			} else if err != nil {
				t.Fatal(err)
			}
			continue
		}
		m, err := s.Next(short)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return seqs
		} else if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, m.Seq)
	}
	return seqs
}

// matching is the model: filter(stream).
func (c *fakeCluster) matching(list []string, after uint64) (seqs []uint64) {
	f, err := topic.ParseFilters(list...)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records[after:] {
		if f.Match(c.names[r.Topic()]) {
			seqs = append(seqs, r.Seq())
		}
	}
	return seqs
}

// TestViolationsAreReported: each lie of a node in its second response with messages
// ends the subscription with the position before it, whose messages are all there.
func TestViolationsAreReported(t *testing.T) {
	split := func(m *api.SubscribeResponse) (out [][]byte) {
		for b := m.Records; len(b) > 0; {
			r, rest, err := message.Split(b)
			if err != nil {
				panic(err)
			}
			out, b = append(out, b[:message.Stride(len(r))]), rest
		}
		return out
	}
	join := func(m *api.SubscribeResponse, records ...[]byte) { m.Records = slices.Concat(records...) }
	restamp := func(b []byte, f func(r message.Record)) []byte {
		b = slices.Clone(b)
		r, _, _ := message.Split(b)
		f(r)
		return b
	}
	for name, test := range map[string]struct {
		lie    func(m *api.SubscribeResponse)
		reason string
	}{
		"flipped payload bit": {func(m *api.SubscribeResponse) { m.Records[message.HeadBytes+1] ^= 1 }, "body checksum"},
		"flipped head bit":    {func(m *api.SubscribeResponse) { m.Records[8] ^= 1 }, "head checksum"},
		"cut record":          {func(m *api.SubscribeResponse) { m.Records = m.Records[:len(m.Records)-8] }, "record says"},
		"swapped":             {func(m *api.SubscribeResponse) { r := split(m); join(m, r[1], r[0], r[2]) }, "seq 14 came when everything up to 15"},
		"repeated":            {func(m *api.SubscribeResponse) { r := split(m); join(m, r[0], r[0], r[1], r[2]) }, "seq 14 came when everything up to 14"},
		"missing": {func(m *api.SubscribeResponse) { r := split(m); join(m, r[1:]...); m.Records = slices.Clone(m.Records) },
			"seq 20 of topic t/1 follows seq 14"},
		"wrong prev": {func(m *api.SubscribeResponse) {
			r := split(m)
			join(m, restamp(r[0], func(r message.Record) { r.Stamp(r.Topic(), r.Seq(), 3, r.Time()) }), r[1])
		}, "seq 14 of topic t/1 follows seq 3"},
		"nameless topic": {func(m *api.SubscribeResponse) {
			r := split(m)
			join(m, restamp(r[0], func(r message.Record) { r.Stamp(99_999, r.Seq(), 0, r.Time()) }))
		}, "topic id 99999, which has no name"},
		"unwanted topic": {func(m *api.SubscribeResponse) {
			r := split(m)
			m.Topics = append(m.Topics, &api.TopicName{Id: 77, Name: "elsewhere"})
			join(m, restamp(r[0], func(r message.Record) { r.Stamp(77, r.Seq(), 0, r.Time()) }))
		}, "topic elsewhere, which no filter matches"},
		"renamed topic": {func(m *api.SubscribeResponse) {
			m.Topics = append(m.Topics, &api.TopicName{Id: 1, Name: "t/2"})
		}, `topic id 1 is called "t/2" and was "t/1"`},
		"old news":     {func(m *api.SubscribeResponse) { m.ScannedSeq = 3 }, "scanned up to 3"},
		"from nowhere": {func(m *api.SubscribeResponse) { m.ScannedSeq = m.TipSeq + 1 }, "the tip is at 40"},
		"beyond the end": {func(m *api.SubscribeResponse) {
			r := split(m)
			join(m, restamp(r[0], func(r message.Record) { r.Stamp(r.Topic(), 41, r.Prev(), r.Time()) }))
			m.ScannedSeq, m.TipSeq = 41, 41
		}, "seq 41 lies beyond the end, 40"},
	} {
		t.Run(name, func(t *testing.T) {
			c := filled(t, 1, 40)
			n, lied := c.nodes[0], false
			n.frameMessages = 4 // seqs 2 3 8 9, then 14 15 20 21, ..
			n.onFrame = func(m *api.SubscribeResponse) error {
				if m.ScannedSeq > 9 && !lied {
					lied = true
					test.lie(m)
				}
				return nil
			}
			s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{Filters: []string{"t/1", "t/2"}, UntilTip: true})
			var got []uint64
			for {
				m, err := s.Next(ctx)
				if err == nil {
					got = append(got, m.Seq)
					continue
				}
				v := new(ViolationError)
				if !errors.As(err, &v) || !strings.Contains(v.Reason, test.reason) || v.Position.Seq != 9 || v.Node == "" {
					t.Fatalf("%v; position %d", err, s.Position().Seq)
				}
				if corrupt := name == "cut record" || strings.HasPrefix(name, "flipped"); errors.Is(err, message.ErrCorrupt) != corrupt {
					t.Fatalf("%v is or is not damage", err)
				}
				break
			}
			if !slices.Equal(got, []uint64{2, 3, 8, 9}) {
				t.Fatal(got)
			}
			if _, err := s.Next(ctx); err == nil || err == io.EOF {
				t.Fatal("the subscription went on")
			}
			resumed := subscribe(t, c.dial(t, Options{}), SubscribeOptions{From: Resume(s.Position()), UntilTip: true})
			if got := strings.Join(rest(t, resumed), " "); got != "13 14 19 20 25 26 31 32 37 38" {
				t.Fatal(got)
			}
		})
	}
}

// A gap between two nodes is found although each of them is consistent in itself.
func TestHandOverBetweenNodesIsVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 2, 60)
		var streams atomic.Int32
		for _, n := range c.nodes {
			n.frameMessages = 5
			n.onFrame = func(m *api.SubscribeResponse) error {
				if m.Opened != nil {
					streams.Add(1)
				}
				switch {
				case streams.Load() == 1 && m.ScannedSeq > 20:
					return status.Error(codes.Unavailable, "cut")
				case streams.Load() == 2 && m.Opened == nil:
					_, m.Records, _ = message.Split(m.Records)
					streams.Add(1)
				}
				return nil
			}
		}
		s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{Filters: []string{"t/**"}, UntilTip: true})
		for {
			if _, err := s.Next(ctx); err != nil {
				if v := new(ViolationError); !errors.As(err, &v) {
					t.Fatal(err)
				}
				return
			}
		}
	})
}

func TestAStalledNodeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 2, 50)
		var stalled atomic.Bool
		for _, n := range c.nodes {
			n.frameMessages = 7
			n.onFrame = func(m *api.SubscribeResponse) error {
				if m.ScannedSeq > 10 && !stalled.Swap(true) {
					return errMute
				}
				return nil
			}
		}
		begin := time.Now()
		s := subscribe(t, c.dial(t, Options{StallAfter: 7 * time.Second}), SubscribeOptions{Filters: []string{"**"}, UntilTip: true})
		if got := rest(t, s); len(got) != 50 || got[49] != "49" {
			t.Fatal(got)
		}
		if d := time.Since(begin); d < 7*time.Second || d > 8*time.Second {
			t.Fatalf("it took %v", d)
		}
	})
}

// A subscriber that does not read stops the node, keeps its place, and is not
// taken for stalled.
func TestASlowSubscriberCostsBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		for range 400 {
			c.store("a/b", strings.Repeat("x", 100<<10))
		}
		var sent atomic.Int64
		c.nodes[0].frameMessages = 1
		c.nodes[0].onFrame = func(m *api.SubscribeResponse) error {
			sent.Add(1)
			return nil
		}
		s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{Filters: []string{"**"}, UntilTip: true})
		time.Sleep(time.Hour)
		if n := sent.Load(); n > 120 {
			t.Fatalf("%d responses of 100 KiB are under way", n)
		}
		if got := rest(t, s); len(got) != 400 || sent.Load() != 401 {
			t.Fatalf("%d messages in %d responses", len(got), sent.Load())
		}
	})
}

func TestNextHonoursItsContextAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 1, 1)
		s := subscribe(t, c.dial(t, Options{StallAfter: time.Hour}), SubscribeOptions{Filters: []string{"**"}, From: Tip()})
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := s.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		c.store("a", "new")
		if m, err := s.Next(ctx); err != nil || string(m.Payload) != "new" {
			t.Fatal(m, err)
		}
		time.AfterFunc(time.Minute, s.Close)
		if _, err := s.Next(ctx); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// The position moves although nothing matches, and an error of the context says
// what keeps the subscription waiting.
func TestProgressAndTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 1, 10)
		s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{Filters: []string{"nothing"}})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Next(short); !errors.Is(err, context.DeadlineExceeded) || s.Position().Seq != 10 || s.TipSeq() != 10 {
			t.Fatal(err, s.Position(), s.TipSeq())
		}
		c.nodes[0].stop()
		short, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := s.Next(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
		c.fill(10)
		c.nodes[0].start()
		short, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := s.Next(short); !errors.Is(err, context.DeadlineExceeded) || s.Position().Seq != 20 {
			t.Fatal(err, s.Position())
		}
	})
}

func TestWrongOpeningsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		lie  func(o *api.Opened)
		want string
	}{
		"start":   {func(o *api.Opened) { o.AfterSeq++ }, "it starts behind 8, 7 was asked for"},
		"filters": {func(o *api.Opened) { o.Filters = []string{"t/0"} }, `it understood the filters as ["t/0"], they are ["t/1"]`},
	} {
		c := filled(t, 1, 20)
		c.nodes[0].onFrame = func(m *api.SubscribeResponse) error {
			if m.Opened != nil {
				test.lie(m.Opened)
			}
			return nil
		}
		_, err := c.dial(t, Options{}).Subscribe(ctx, SubscribeOptions{Filters: []string{"t/1"}, From: AfterSeq(7)})
		v := new(ViolationError)
		if !errors.As(err, &v) || !strings.Contains(v.Reason, test.want) || v.Position.Seq != 7 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 2, 40)
		cl := c.dial(t, Options{})
		stranger := Position{Cluster: "elsewhere", Seq: 3, Filters: []string{"**"}}
		if _, err := cl.Subscribe(ctx, SubscribeOptions{From: Resume(stranger)}); !errors.Is(err, ErrOtherCluster) {
			t.Fatal(err)
		}
		// The second node turns out to be another cluster's.
		var streams atomic.Int32
		for _, n := range c.nodes {
			n.frameMessages = 5
			n.onFrame = func(m *api.SubscribeResponse) error {
				switch {
				case m.Opened == nil && m.ScannedSeq > 20:
					return status.Error(codes.Unavailable, "cut")
				case m.Opened != nil && streams.Add(1) > 1:
					m.Opened.ClusterId = "c2"
				}
				return nil
			}
		}
		s := subscribe(t, cl, SubscribeOptions{Filters: []string{"**"}})
		for {
			if _, err := s.Next(ctx); err != nil {
				if !errors.Is(err, ErrOtherCluster) || s.Position().Seq != 20 {
					t.Fatal(err, s.Position())
				}
				return
			}
		}
	})
}

func TestStartsThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 2, 10)
		cl := c.dial(t, Options{}, "dead")
		for name, test := range map[string]struct {
			o    SubscribeOptions
			want error
		}{
			"future":        {SubscribeOptions{Filters: []string{"**"}, From: AfterSeq(11)}, ErrOutOfRange},
			"no filter":     {SubscribeOptions{}, ErrInvalid},
			"bad filter":    {SubscribeOptions{Filters: []string{"a/**/b"}}, ErrInvalid},
			"bad size":      {SubscribeOptions{Filters: []string{"**"}, BatchBytes: -1}, ErrInvalid},
			"other filters": {SubscribeOptions{Filters: []string{"t/1"}, From: Resume(Position{"c1", 3, []string{"t/2"}})}, ErrInvalid},
			"bad cluster":   {SubscribeOptions{From: Resume(Position{"c\xff", 3, []string{"t/2"}})}, ErrInvalid},
		} {
			begin := time.Now()
			if _, err := cl.Subscribe(ctx, test.o); !errors.Is(err, test.want) {
				t.Errorf("%s: %v", name, err)
			}
			if time.Since(begin) > time.Second {
				t.Errorf("%s: it took %v to say so", name, time.Since(begin))
			}
		}
		expired, err := status.New(codes.OutOfRange, "the oldest is 5").WithDetails(&errdetails.ErrorInfo{Reason: "EXPIRED"})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes[0].onSubscribe = func(*api.SubscribeRequest) error { return expired.Err() }
		c.nodes[1].onSubscribe = c.nodes[0].onSubscribe
		if _, err := cl.Subscribe(ctx, SubscribeOptions{Filters: []string{"**"}}); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "the oldest is 5") {
			t.Fatal(err)
		}
	})
}

// A subscription that lost its node meets nodes that lag: it waits for them to catch
// up, but not for ever.
func TestLaggingNodes(t *testing.T) {
	for name, catchUp := range map[string]bool{"catch up": true, "have lost the future": false} {
		inBubble(t, name, func(t *testing.T) {
			c := filled(t, 2, 30)
			lag := func(messages int64) {
				for _, n := range c.nodes {
					n.lag.Store(messages)
				}
			}
			var broken atomic.Bool
			for _, n := range c.nodes {
				n.frameMessages = 10
				n.onFrame = func(m *api.SubscribeResponse) error {
					if m.ScannedSeq == 30 && !broken.Swap(true) {
						lag(15)
						return status.Error(codes.Unavailable, "cut")
					}
					return nil
				}
			}
			if catchUp {
				time.AfterFunc(3*time.Second, func() { lag(0) })
			}
			s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{Filters: []string{"**"}, UntilTip: true})
			begin, count := time.Now(), 0
			for {
				if _, err := s.Next(ctx); err == io.EOF && catchUp && count == 30 && time.Since(begin) < 5*time.Second {
					return
				} else if errors.Is(err, ErrOutOfRange) && !catchUp && count == 20 && time.Since(begin).Round(2*time.Second) == 10*time.Second {
					return
				} else if err != nil {
					t.Fatal(err, count, time.Since(begin))
				}
				count++
			}
		})
	}
}

// The end of a subscription with UntilTip is that of the first opening, also when
// the node that finishes it knows more.
func TestUntilTipEndsWhereItSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := filled(t, 2, 30)
		var broken atomic.Bool
		var bounded atomic.Int32
		for _, n := range c.nodes {
			n.onSubscribe = func(r *api.SubscribeRequest) error {
				if r.UntilTip {
					bounded.Add(1)
				}
				return nil
			}
			n.frameMessages = 8
			n.onFrame = func(m *api.SubscribeResponse) error {
				if m.ScannedSeq == 16 && !broken.Swap(true) {
					c.fill(50)
					return status.Error(codes.Unavailable, "cut")
				}
				return nil
			}
		}
		s := subscribe(t, c.dial(t, Options{}), SubscribeOptions{Filters: []string{"**"}, UntilTip: true})
		if got := rest(t, s); len(got) != 30 || got[29] != "29" || s.Position().Seq != 30 {
			t.Fatal(got, s.Position())
		}
		// A node that lags would end such a stream where it stands.
		if n := bounded.Load(); n != 1 {
			t.Fatalf("%d streams were asked to stop at the tip", n)
		}
	})
}
