package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// TestModel: a key's value is always its own, the bytes never pass the limit, and the
// ones used last are here.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const limit = 100
		c := New[int, int](limit)
		var recent []int // keys, the newest last
		size := func(key int) int64 { return int64(key%7) * 9 }
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			key := rapid.IntRange(0, 20).Draw(rt, "key")
			had := c.Has(key)
			made := false
			v, err := c.Get(key, func() (int, int64, error) { made = true; return key * 3, size(key), nil })
			if err != nil || v != key*3 || made == had {
				rt.Fatalf("%d is %d, %v; had it %v, made it %v", key, v, err, had, made)
			}
			for i, k := range recent {
				if k == key {
					recent = append(recent[:i], recent[i+1:]...)
					break
				}
			}
			recent = append(recent, key)
			sum := int64(0)
			for i := len(recent) - 1; i >= 0; i-- {
				if sum += size(recent[i]); sum > limit {
					break
				}
				if !c.Has(recent[i]) {
					rt.Fatalf("%d is not here, %v are newer", recent[i], recent[i+1:])
				}
			}
			if c.Bytes() > limit {
				rt.Fatalf("%d bytes", c.Bytes())
			}
		}
	})
}

func TestMadeOnceForAll(t *testing.T) {
	c := New[string, int](10)
	var calls atomic.Int32
	release := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			v, err := c.Get("k", func() (int, int64, error) { calls.Add(1); <-release; return 7, 1, nil })
			if v != 7 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
	close(release)
	all.Wait()
	if n := calls.Load(); n != 1 {
		t.Fatalf("made %d times", n)
	}
}

// TestTry: who tries does not wait for another one, and makes what nobody makes.
func TestTry(t *testing.T) {
	c := New[string, int](10)
	begun, release := make(chan struct{}), make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		if v, err := c.Get("k", func() (int, int64, error) { close(begun); <-release; return 7, 1, nil }); v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
	<-begun
	never := func() (int, int64, error) { t.Error("made twice"); return 0, 0, nil }
	if v, here, err := c.Try("k", never); v != 0 || here || err != nil {
		t.Errorf("while it is made: %d, %v, %v", v, here, err)
	}
	close(release)
	other.Wait()
	if v, here, err := c.Try("k", never); v != 7 || !here || err != nil {
		t.Errorf("when it is here: %d, %v, %v", v, here, err)
	}
	if v, here, err := c.Try("l", func() (int, int64, error) { return 8, 1, nil }); v != 8 || !here || err != nil {
		t.Errorf("what nobody makes: %d, %v, %v", v, here, err)
	}
	bad := errors.New("bad")
	if _, here, err := c.Try("m", func() (int, int64, error) { return 0, 0, bad }); !here || !errors.Is(err, bad) || c.Has("m") {
		t.Errorf("an error: %v, %v", here, err)
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	c := New[string, int](10)
	bad := errors.New("bad")
	if _, err := c.Get("k", func() (int, int64, error) { return 0, 5, bad }); !errors.Is(err, bad) || c.Has("k") || c.Bytes() != 0 {
		t.Fatal(err)
	}
	if v, err := c.Get("k", func() (int, int64, error) { return 1, 5, nil }); v != 1 || err != nil {
		t.Fatal(v, err)
	}
	if v, err := c.Get("huge", func() (int, int64, error) { return 2, 50, nil }); v != 2 || err != nil || c.Bytes() > 10 {
		t.Fatal("a value that is too large was not given out, or was kept")
	}
}
