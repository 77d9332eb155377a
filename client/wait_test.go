package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorale/api"
	"chorale/client/waits"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// waitLog is what OnWait was told, with the addresses of the fake nodes cut short.
type waitLog struct {
	mu    sync.Mutex
	lines []string
	errs  []error
}

func (l *waitLog) hear(w Wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.ReplaceAll(w.String(), "passthrough:///", ""))
	if w.Err != nil {
		l.errs = append(l.errs, w.Err)
	}
}

// take returns what was told since the last time.
func (l *waitLog) take(t *testing.T) (lines []string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, err := range l.errs {
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, waits.ErrSlow) {
			t.Errorf("%v does not say what kind it is", err)
		}
	}
	lines, l.lines, l.errs = l.lines, nil, nil
	return lines
}

// want holds the beginnings of the lines against what was told since.
func (l *waitLog) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := l.take(t); !slices.EqualFunc(got, lines, strings.HasPrefix) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// wantMinute holds the number of lines against that of a minute of waiting.
func (l *waitLog) wantMinute(t *testing.T) {
	t.Helper()
	if got := l.take(t); len(got) < 60/5-2 || len(got) > 60/5+3 {
		t.Errorf("%d lines in a minute:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// trouble is a way in which a node does not serve, and how a wait for it is told.
type trouble struct {
	name       string
	begin, end func(n *fakeNode)
	told       string
	// It concerns publishers alone, or subscriptions alone.
	publish, subscribe bool
}

func troubles() (list []trouble, onFrame func(*api.SubscribeResponse) error) {
	unavailable := func(text string) error { return status.Error(codes.Unavailable, text) }
	judge := func(v verdict) func(n *fakeNode) {
		return func(n *fakeNode) { n.misbehave(func() verdict { return v }) }
	}
	var hook atomic.Pointer[func(*api.SubscribeResponse) error]
	frames := func(f func(m *api.SubscribeResponse) error) func(n *fakeNode) {
		return func(n *fakeNode) { n.stop(); hook.Store(&f); n.start() }
	}
	onFrame = func(m *api.SubscribeResponse) error {
		if f := hook.Load(); f != nil && *f != nil {
			return (*f)(m)
		}
		return nil
	}
	list = []trouble{
		{name: "refused", begin: (*fakeNode).stop, end: (*fakeNode).start, told: "waiting: node0: connection refused; trying again"},
		{name: "busy", publish: true, begin: judge(busy), end: judge(take), told: "waiting: node0: busy; trying again"},
		{name: "unknown", publish: true, begin: judge(unknown), end: judge(take), told: "waiting: node0: unknown; trying again"},
		{name: "cut", publish: true, begin: judge(cutBefore), end: judge(take), told: "waiting: node0: cut; trying again"},
		{name: "mute", publish: true, begin: judge(mute), end: judge(take), told: "waiting for 2s: node0: no answer yet"},
		{
			name: "not ready", subscribe: true, told: "waiting: node0: this node is not ready: no leader; trying again",
			begin: frames(func(*api.SubscribeResponse) error { return unavailable("this node is not ready: no leader") }),
			end:   frames(nil),
		}, {
			name: "a file is missing", subscribe: true, told: "waiting: node0: file 7 is not here; trying again",
			begin: frames(func(m *api.SubscribeResponse) error {
				if m.Opened != nil {
					return nil
				}
				return unavailable("unavailable: file 7 is not here")
			}),
			end: frames(nil),
		}, {
			name: "silent", subscribe: true, told: "waiting for 2s: node0: no answer yet",
			begin: frames(func(*api.SubscribeResponse) error { return errMute }),
			end:   frames(nil),
		},
	}
	return list, onFrame
}

// TestAWaitingSubscriptionTells: for every kind of trouble, from the start and
// midway, a subscriber is told why it waits, seldom again, and when it goes on.
func TestAWaitingSubscriptionTells(t *testing.T) {
	kinds, onFrame := troubles()
	for _, kind := range kinds {
		if kind.publish {
			continue
		}
		inBubble(t, kind.name, func(t *testing.T) {
			c, log := newCluster(t, 0), new(waitLog)
			n := &fakeNode{cluster: c, name: "node0", onFrame: onFrame}
			n.start()
			t.Cleanup(n.stop)
			c.nodes = append(c.nodes, n)
			c.fill(10)
			client := c.dial(t, Options{StallAfter: time.Minute})
			ends := func() { time.AfterFunc(4*time.Second, func() { kind.end(n) }) }
			next := func(s *Subscription, messages int) {
				for range messages {
					if _, err := s.Next(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			kind.begin(n)
			ends()
			s := subscribe(t, client, SubscribeOptions{Filters: []string{"**"}, OnWait: log.hear})
			next(s, 10)
			lines := log.take(t)
			if last := len(lines) - 1; last < 1 || last > 2 || !strings.HasPrefix(lines[0], kind.told) || !strings.HasPrefix(lines[last], "going on at node0, after waiting for") {
				t.Errorf("at the start told %q", lines)
			}
			time.Sleep(time.Minute)
			log.want(t)

			kind.begin(n)
			ends()
			c.fill(1)
			next(s, 1)
			lines = log.take(t)
			if last := len(lines) - 1; last < 1 || last > 2 || !strings.HasPrefix(lines[last], "going on at node0, after waiting for") {
				t.Errorf("midway told %q", lines)
			}
			kind.begin(n)
			c.fill(1)
			time.Sleep(time.Minute)
			log.wantMinute(t)
			s.Close()
			time.Sleep(time.Second)
			log.take(t)
			time.Sleep(time.Minute)
			log.want(t)
			kind.end(n)
		})
	}
}

// TestAWaitingPublisherTells is the same for a publisher; with nothing to send it
// waits for nobody.
func TestAWaitingPublisherTells(t *testing.T) {
	kinds, _ := troubles()
	for _, kind := range kinds {
		if kind.subscribe {
			continue
		}
		inBubble(t, kind.name, func(t *testing.T) {
			c, log := newCluster(t, 1), new(waitLog)
			n := c.nodes[0]
			kind.begin(n)
			p := publisher(t, c.dial(t, Options{StallAfter: 3 * time.Second}), PublisherOptions{OnWait: log.hear, GiveUpAfter: 10 * time.Minute})
			publish := func() *Result { return p.Publish(ctx, Message{Topic: "a"}) }
			time.AfterFunc(2200*time.Millisecond, func() { kind.end(n) })
			if _, err := publish().Wait(ctx); err != nil {
				t.Fatal(err)
			}
			lines := log.take(t)
			if last := len(lines) - 1; last < 1 || last > 2 || !strings.HasPrefix(lines[0], kind.told) || !strings.HasPrefix(lines[last], "going on at node0, after waiting for") {
				t.Errorf("at the start told %q", lines)
			}

			kind.begin(n) // with nothing to send
			time.Sleep(time.Minute)
			log.want(t)

			r := publish()
			time.Sleep(time.Minute)
			log.wantMinute(t)
			kind.end(n)
			if _, err := r.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if lines := log.take(t); len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "going on at node0, after waiting for 1m") {
				t.Errorf("at the end told %q", lines)
			}
			if err := p.Close(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			log.want(t)
		})
	}
}

// TestAFailoverIsSilent: who goes on at another node at once has not waited.
func TestAFailoverIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := filled(t, 3, 10), new(waitLog)
		client := c.dial(t, Options{}, "dead")
		s := subscribe(t, client, SubscribeOptions{Filters: []string{"**"}, OnWait: log.hear})
		p := publisher(t, client, PublisherOptions{OnWait: log.hear})
		for _, n := range c.nodes {
			n.stop()
			time.Sleep(time.Minute)
			n.start()
			if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		for range 13 {
			if _, err := s.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		log.want(t)
		if err := p.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnOpeningThatFails tells no more when it has failed, and says in its error
// what it waited for.
func TestAnOpeningThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(waitLog)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		c := newCluster(t, 0).dial(t, Options{}, "dead1", "dead2")
		_, err := c.Subscribe(short, SubscribeOptions{Filters: []string{"a"}, OnWait: log.hear})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "dead") {
			t.Fatal(err)
		}
		if lines := log.take(t); len(lines) < 2 || len(lines) > 3 {
			t.Errorf("told %q", lines)
		}
		time.Sleep(time.Minute)
		log.want(t)

		p := publisher(t, c, PublisherOptions{GiveUpAfter: time.Second})
		if _, err := p.Publish(ctx, Message{Topic: "a"}).Wait(ctx); err == nil || !strings.Contains(err.Error(), "was not answered for 1s; the last trouble was: node passthrough:///dead") {
			t.Error(err)
		}
	})
}
