package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func entry(index uint64) *raft.Log {
	return &raft.Log{
		Index: index, Term: 3, Type: raft.LogCommand, Data: fmt.Appendf(nil, "data %d", index),
		Extensions: []byte("ext"), AppendedAt: time.Unix(1700000000, 123),
	}
}

// What was stored is read back from a real file, over a restart, without a trace
// of the checksum; and the caller's entry is not changed.
func TestBoltRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	s, err := Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	bare := &raft.Log{Index: 2, Term: 3}
	given := entry(1)
	if err := s.StoreLogs([]*raft.Log{given, bare}); err != nil {
		t.Fatal(err)
	}
	if string(given.Extensions) != "ext" || bare.Extensions != nil {
		t.Errorf("the caller's entries were changed: %v %v", given, bare)
	}
	if _, err := Open(path, 0); !errors.Is(err, ErrInUse) {
		t.Errorf("opening it twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, 0); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got raft.Log
	if err := s.GetLog(1, &got); err != nil {
		t.Fatal(err)
	}
	if want := entry(1); got.Term != want.Term || !bytes.Equal(got.Data, want.Data) || string(got.Extensions) != "ext" || !got.AppendedAt.Equal(want.AppendedAt) {
		t.Errorf("read %+v", got)
	}
	if err := s.GetLog(2, &got); err != nil || got.Extensions != nil {
		t.Errorf("read %+v, %v", got, err)
	}
}

// A flipped bit anywhere in a bolt file never gives a wrong entry: it is an error
// when the file is opened or the entry is read, or it hit what nobody reads.
func TestBoltFlippedBits(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "raft.db")
	s, err := Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= 40; i++ {
		if err := s.StoreLog(entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 0; at < len(sound); at += len(sound)/300 + 1 {
		damaged := bytes.Clone(sound)
		damaged[at] ^= 1 << (at % 8)
		path := filepath.Join(dir, fmt.Sprint("damaged-", at))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if checkDamaged(t, path, at) {
			found++
		}
		os.Remove(path)
	}
	if found == 0 {
		t.Error("no flip was found: the test does nothing")
	}
}

func checkDamaged(t *testing.T, path string, at int) (found bool) {
	s, err := Open(path, 0)
	if err != nil {
		return true
	}
	for i := uint64(1); i <= 40; i++ {
		var got raft.Log
		switch err := s.GetLog(i, &got); {
		case errors.Is(err, raft.ErrLogNotFound):
			found = true // Reconcile refuses the hole
		case err != nil:
			return true
		case string(got.Data) != string(entry(i).Data) || got.Term != 3 || got.Index != i:
			t.Errorf("bit flipped at %d: entry %d reads as %+v", at, i, got)
		}
	}
	s.Close()
	return found
}

func TestChecksum(t *testing.T) {
	for name, damage := range map[string]func(*raft.Log){
		"data":       func(l *raft.Log) { l.Data = []byte("DATA 1") },
		"term":       func(l *raft.Log) { l.Term++ },
		"index":      func(l *raft.Log) { l.Index++ },
		"type":       func(l *raft.Log) { l.Type = raft.LogNoop },
		"extensions": func(l *raft.Log) { l.Extensions[0] ^= 1 },
		"border": func(l *raft.Log) { // a byte moved from data to extensions
			l.Extensions = append([]byte{l.Data[len(l.Data)-1]}, l.Extensions...)
			l.Data = l.Data[:len(l.Data)-1]
		},
		"checksum": func(l *raft.Log) { l.Extensions[len(l.Extensions)-1] ^= 1 },
		"none":     func(l *raft.Log) { l.Extensions = nil },
	} {
		l := seal(entry(1))
		damage(l)
		if err := open(l, 1); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := open(seal(entry(2)), 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a sound entry at the place of another: %v", err)
	}
	l := seal(entry(1))
	if err := open(l, 1); err != nil || string(l.Extensions) != "ext" {
		t.Errorf("a sound entry: %v, %q", err, l.Extensions)
	}
}

// Entries of another format are no reason to guess.
func TestOpenForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("not a database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, 0); err == nil {
		t.Error("a foreign file was opened")
	}
}
