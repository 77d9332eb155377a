package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chorale/message"
)

// inBubble runs a test in virtual time. The client and its fake nodes talk through
// memory, so nothing there waits for the world.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func publisher(t *testing.T, c *Client, o PublisherOptions) *Publisher {
	t.Helper()
	p, err := c.Publisher(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPublishStoresAndAcknowledges(t *testing.T) {
	c := newCluster(t, 1)
	p := publisher(t, c.dial(t, Options{}), PublisherOptions{})

	first := p.Publish(ctx, Message{Topic: "a/b", Payload: []byte("1"), Headers: []Header{{Key: "k", Value: []byte("v")}}})
	unit := p.PublishAtomic(ctx, Message{Topic: "a/b", Payload: []byte("2")}, Message{Topic: "c", Payload: []byte("3")})
	called := make(chan Ack, 1)
	if err := p.PublishFunc(ctx, Message{Topic: "c", Payload: []byte("4")}, func(a Ack, err error) {
		if err != nil {
			t.Error(err)
		}
		called <- a
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{1, 2} {
		if ack, err := []*Result{first, unit}[i].Wait(ctx); err != nil || ack != (Ack{Seq: want}) {
			t.Fatalf("%+v, %v", ack, err)
		}
	}
	if a := <-called; a.Seq != 4 {
		t.Fatalf("%+v", a)
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := c.payloads(); !slices.Equal(got, []string{"1", "2", "3", "4"}) {
		t.Fatal(got)
	}
	if n, err := c.dial(t, Options{}).LastNumber(ctx, p.Producer()); n != 3 || err != nil {
		t.Fatal(n, err)
	}
}

// TestPublishSurvivesAnything: whatever the transport does, every accepted message
// is stored once, in order, and its result is resolved once, with its seq.
func TestPublishSurvivesAnything(t *testing.T) {
	for seed := range *seeds {
		inBubble(t, fmt.Sprint("seed ", seed), func(t *testing.T) { surviveAnything(t, seed) })
	}
}

func surviveAnything(t *testing.T, seed uint64) {
	rng, fate := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	c := newCluster(t, 3)
	trouble := rng.IntN(60) // percent of batches
	for _, n := range c.nodes {
		n.onBatch = func() verdict {
			if fate.IntN(2) == 0 {
				c.applyLate()
			}
			if fate.IntN(100) < trouble {
				return verdict(fate.IntN(int(verdicts)))
			}
			return take
		}
	}
	p := publisher(t, c.dial(t, Options{}), PublisherOptions{MaxMessages: 1 + rng.IntN(200), GiveUpAfter: 24 * time.Hour})

	var results []*Result
	var first, want []string
	for i := range 300 {
		var unit []Message
		for j := range 1 + rng.IntN(3)*rng.IntN(2) {
			payload := fmt.Sprintf("%d.%d", i, j)
			unit = append(unit, Message{Topic: fmt.Sprintf("t/%d", rng.IntN(5)), Payload: []byte(payload)})
			want = append(want, payload)
		}
		first = append(first, string(unit[0].Payload))
		results = append(results, p.PublishAtomic(ctx, unit...))
		if rng.IntN(10) == 0 {
			time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := c.payloads()
	if !slices.Equal(got, want) {
		t.Fatalf("stored %d messages, want %d, in order:\n%v\n%v", len(got), len(want), got, want)
	}
	for i, r := range results {
		if ack, err := r.Wait(ctx); err != nil || got[ack.Seq-1] != first[i] {
			t.Fatalf("unit %d: %+v, %v", i, ack, err)
		}
	}
}

func TestPublishGoesOnWhenANodeStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		stalled := false
		for _, n := range c.nodes {
			n.onBatch = func() verdict {
				if !stalled {
					stalled = true
					return mute
				}
				return take
			}
		}
		p := publisher(t, c.dial(t, Options{StallAfter: 5 * time.Second}), PublisherOptions{})
		begin := time.Now()
		ack, err := p.Publish(context.Background(), Message{Topic: "a"}).Wait(context.Background())
		if err != nil || !ack.Duplicate || ack.Seq != 1 {
			t.Fatalf("%+v, %v", ack, err)
		}
		if d := time.Since(begin); d < 5*time.Second || d > 6*time.Second {
			t.Fatalf("it took %v", d)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPublishGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.nodes[0].onBatch = func() verdict { return cutAfter }
		p := publisher(t, c.dial(t, Options{}), PublisherOptions{GiveUpAfter: time.Minute})
		ctx := context.Background()
		begin := time.Now()
		r := p.Publish(ctx, Message{Topic: "a"})
		_, err := r.Wait(ctx)
		if !errors.Is(err, ErrUncertain) || !errors.Is(err, ErrUnavailable) || time.Since(begin) != time.Minute {
			t.Fatal(err, time.Since(begin))
		}
		if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if err := p.Close(ctx); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	})
}

// Each unit has its own time: that the one before it was decided late changes
// nothing. Whoever waits for room learns that there will be none.
func TestPublishGivesUpOnTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		batches := 0
		c.nodes[0].onBatch = func() verdict {
			if batches++; batches > 1 {
				return mute
			}
			time.Sleep(50 * time.Second)
			return take
		}
		p := publisher(t, c.dial(t, Options{StallAfter: time.Hour}), PublisherOptions{GiveUpAfter: time.Minute, MaxMessages: 2})
		begin := time.Now()
		first := p.Publish(ctx, Message{Topic: "a"})
		time.Sleep(30 * time.Second)
		second := p.Publish(ctx, Message{Topic: "a"})
		if _, err := first.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		p.Publish(ctx, Message{Topic: "a"})
		if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if _, err := second.Wait(ctx); !errors.Is(err, ErrUncertain) || time.Since(begin) != 90*time.Second {
			t.Fatal(err, time.Since(begin))
		}
	})
}

func TestNobodyThereIsCertainlyUnpublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 0)
		p := publisher(t, c.dial(t, Options{}, "nowhere"), PublisherOptions{GiveUpAfter: time.Minute})
		_, err := p.Publish(context.Background(), Message{Topic: "a"}).Wait(context.Background())
		if !errors.Is(err, ErrUnpublished) || errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
	})
}

func TestPublishBlocksWhenFull(t *testing.T) {
	for name, o := range map[string]PublisherOptions{
		"messages": {MaxMessages: 2, GiveUpAfter: 24 * time.Hour}, "bytes": {MaxBytes: 320, GiveUpAfter: 24 * time.Hour}} {
		inBubble(t, name, func(t *testing.T) {
			c := newCluster(t, 1)
			c.nodes[0].onBatch = func() verdict { return mute }
			p := publisher(t, c.dial(t, Options{StallAfter: time.Hour}), o)
			ctx := context.Background()
			p.Publish(ctx, Message{Topic: "a", Payload: make([]byte, 100)})
			p.Publish(ctx, Message{Topic: "a", Payload: make([]byte, 100)})
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := p.Publish(short, Message{Topic: "a", Payload: []byte("no")}).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			c.nodes[0].misbehave(nil)
			blocked := p.Publish(ctx, Message{Topic: "a", Payload: []byte("yes")}) // until the stall is over
			if _, err := blocked.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if got := c.payloads(); len(got) != 3 || got[2] != "yes" {
				t.Fatalf("%q", got)
			}
		})
	}
}

func TestLocalRulesRefuseAtOnce(t *testing.T) {
	c := newCluster(t, 1)
	p := publisher(t, c.dial(t, Options{}), PublisherOptions{})
	never := ^uint64(0)
	for name, unit := range map[string][]Message{
		"no message":      {},
		"empty topic":     {{Topic: ""}},
		"star":            {{Topic: "a/*"}},
		"payload":         {{Topic: "a", Payload: make([]byte, message.MaxPayloadBytes+1)}},
		"header key":      {{Topic: "a", Headers: []Header{{}}}},
		"headers":         {{Topic: "a", Headers: []Header{{Key: "k", Value: make([]byte, 70_000)}}}},
		"unit too large":  {{Topic: "a", Payload: make([]byte, 9<<20)}, {Topic: "a", Payload: make([]byte, 9<<20)}},
		"impossible seq":  {{Topic: "a", ExpectedLastSeq: &never}},
		"second of three": {{Topic: "a"}, {Topic: "b//c"}, {Topic: "d"}},
	} {
		if _, err := p.PublishAtomic(context.Background(), unit...).Wait(context.Background()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := c.payloads(); len(got) != 0 {
		t.Fatal(got)
	}
}

func TestConditions(t *testing.T) {
	c := newCluster(t, 1)
	p := publisher(t, c.dial(t, Options{}), PublisherOptions{})
	at := func(seq uint64) *uint64 { return &seq }
	for i, step := range []struct {
		expected *uint64
		want     string
	}{
		{at(5), "condition failed: the last seq of the topic of message 1 of the unit is 0"},
		{at(0), "<nil>"},
		{at(0), "condition failed: the last seq of the topic of message 1 of the unit is 2"},
		{at(2), "<nil>"},
		{nil, "<nil>"},
	} {
		_, err := p.PublishAtomic(ctx, Message{Topic: "other"}, Message{Topic: "a", ExpectedLastSeq: step.expected}).Wait(ctx)
		if fmt.Sprint(err) != step.want {
			t.Fatalf("step %d: %v, want %s", i, err, step.want)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// A node with a lower limit refuses what passed the local rules: the others of the
// batch are stored, once and in order, and the limit is remembered.
func TestARefusedUnitHurtsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.payloadLimit = 10
		p := publisher(t, c.dial(t, Options{}), PublisherOptions{})
		ctx := context.Background()
		var results []*Result
		var want []string
		before := p.Producer()
		for i := range 40 {
			payload := fmt.Sprint("m", i)
			if i == 13 || i == 29 {
				payload = strings.Repeat("x", 11+i)
			} else {
				want = append(want, payload)
			}
			results = append(results, p.Publish(ctx, Message{Topic: "a/b", Payload: []byte(payload)}))
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if _, err := r.Wait(ctx); errors.Is(err, ErrInvalid) != (i == 13 || i == 29) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if got := c.payloads(); !slices.Equal(got, want) {
			t.Fatalf("stored %v", got)
		}
		if p.Producer() == before {
			t.Fatal("the numbers behind a hole need a fresh producer")
		}
		if ack, err := p.Publish(ctx, Message{Topic: "a", Payload: []byte("on")}).Wait(ctx); err != nil || ack != (Ack{Seq: 39}) {
			t.Fatal(ack, err)
		}
		c.nodes[0].misbehave(func() verdict { t.Error("the learned limit lets it through"); return take })
		if _, err := p.Publish(ctx, Message{Topic: "a", Payload: make([]byte, 11)}).Wait(ctx); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		if err := p.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func TestARefusalEndsAGivenProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.payloadLimit = 10
		p := publisher(t, c.dial(t, Options{}), PublisherOptions{Producer: ProducerID{7}})
		ctx := context.Background()
		good := p.Publish(ctx, Message{Topic: "a", Payload: []byte("good")})
		bad := p.Publish(ctx, Message{Topic: "a", Payload: make([]byte, 11)})
		after := p.Publish(ctx, Message{Topic: "a", Payload: []byte("after")})
		if _, err := good.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Wait(ctx); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		if _, err := after.Wait(ctx); !errors.Is(err, ErrProducer) || !strings.Contains(err.Error(), "number 2 was refused") {
			t.Fatal(err)
		}
		if err := p.Close(ctx); !errors.Is(err, ErrProducer) {
			t.Fatal(err)
		}
	})
}

func TestAGivenProducerContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		id := ProducerID{7}
		send := func(first uint64, payloads ...string) (last error) {
			p := publisher(t, c.dial(t, Options{}), PublisherOptions{Producer: id, FirstNumber: first})
			var r *Result
			for _, s := range payloads {
				r = p.Publish(ctx, Message{Topic: "a", Payload: []byte(s)})
			}
			_, last = r.Wait(ctx)
			p.Close(ctx)
			return last
		}
		steps := []struct {
			err       error
			uncertain bool
		}{
			{send(1, "a", "b", "c"), false},
			{send(2, "b", "c", "d"), false},
			{send(5, "e"), false},
		}
		for i, s := range steps {
			if s.err != nil {
				t.Fatalf("step %d: %v", i, s.err)
			}
		}
		if err := send(9, "i"); !errors.Is(err, ErrProducer) || !strings.Contains(err.Error(), "6 in the cluster and 9 here") {
			t.Fatal(err)
		}
		if got := c.payloads(); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
			t.Fatal(got)
		}
		c.forget()
		if err := send(6, "f"); !errors.Is(err, ErrProducer) || errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
	})
}

func TestAForgottenProducer(t *testing.T) {
	for name, lost := range map[string]bool{"idle": false, "with a lost answer": true} {
		inBubble(t, name, func(t *testing.T) {
			c := newCluster(t, 1)
			p := publisher(t, c.dial(t, Options{}), PublisherOptions{})
			ctx := context.Background()
			if _, err := p.Publish(ctx, Message{Topic: "a", Payload: []byte("1")}).Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if !lost {
				c.forget()
			}
			first := true
			c.nodes[0].misbehave(func() verdict {
				if lost && first {
					first = false
					c.forget()
					return cutBefore
				}
				return take
			})
			ack, err := p.Publish(ctx, Message{Topic: "a", Payload: []byte("2")}).Wait(ctx)
			if lost && (!errors.Is(err, ErrUncertain) || !errors.Is(err, ErrProducer)) || !lost && (err != nil || ack.Seq != 2) {
				t.Fatal(ack, err)
			}
			p.Close(ctx)
		})
	}
}

func TestCloseResolvesWhatItCannotFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.nodes[0].onBatch = func() verdict { return mute }
		p := publisher(t, c.dial(t, Options{StallAfter: time.Hour}), PublisherOptions{})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var results []*Result
		for range 3 {
			results = append(results, p.Publish(ctx, Message{Topic: "a"}))
		}
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, r := range results {
			if _, err := r.Wait(ctx); !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrUnpublished) {
				t.Fatal(err)
			}
		}
		if _, err := p.Publish(context.Background(), Message{Topic: "a"}).Wait(context.Background()); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// A lone message leaves at once; under load a batch is what came while eight others
// were on their way.
func TestBatchesFormByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		batches := 0
		c.nodes[0].onBatch = func() verdict {
			batches++
			time.Sleep(10 * time.Millisecond)
			return take
		}
		p := publisher(t, c.dial(t, Options{}), PublisherOptions{})
		begin := time.Now()
		if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); err != nil || time.Since(begin) != 10*time.Millisecond {
			t.Fatal(err, time.Since(begin))
		}
		for range 8 {
			p.Publish(ctx, Message{Topic: "a"})
			synctest.Wait() // so that each is taken alone
		}
		for range 600 {
			p.Publish(ctx, Message{Topic: "a", Payload: make([]byte, 1000)})
			synctest.Wait()
		}
		if err := p.Close(ctx); err != nil {
			t.Fatal(err)
		}
		// 1 and 8 of one message, then 600 KB in batches of at most 256 KiB.
		if want := 1 + 8 + 3; batches != want {
			t.Fatalf("%d batches, want %d", batches, want)
		}
	})
}
