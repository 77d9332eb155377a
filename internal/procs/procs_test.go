package procs

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// program makes an executable of a shell script.
func program(t *testing.T, script string) string {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEnded: who waits for a process that has ended by itself is told at once, with its last
// words; and it can be started, killed and stopped as before.
func TestEnded(t *testing.T) {
	c, err := New(program(t, "echo 'one'; echo 'no such flag'; exit 2"), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Start(ctx); err == nil || !strings.Contains(err.Error(), "n1 has ended: one\nno such flag") || ctx.Err() != nil {
		t.Errorf("a program that ends: %v", err)
	}
	n := c.Nodes[0]
	if last, err := n.Ended(ctx); last != "no such flag" || err != nil || n.Running() {
		t.Errorf("it ended with %q, %v; it runs: %v", last, err, n.Running())
	}
	n.Use(program(t, "exec sleep 1000"))
	for _, end := range []func() error{n.Kill, func() error { n.Stop(); return nil }} {
		if err := n.Start(); err != nil || !n.Running() {
			t.Fatalf("started again: %v", err)
		}
		if err := end(); err != nil || n.Running() {
			t.Errorf("ended: %v; it runs: %v", err, n.Running())
		}
	}
}

// TestFreePorts: ports are in a row, can be listened on again and again, and nobody else gets
// one of them meanwhile.
func TestFreePorts(t *testing.T) {
	a, err := FreePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	b, err := FreePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	for i, addr := range slices.Concat(a, b) {
		if i%5 > 0 && portOf(t, addr) != portOf(t, slices.Concat(a, b)[i-1])+1 {
			t.Errorf("not in a row: %v, %v", a, b)
		}
		for range 2 {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
		if slices.Contains(a, addr) && slices.Contains(b, addr) {
			t.Errorf("%s was given away twice", addr)
		}
	}
}

func portOf(t *testing.T, addr string) int {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestFiles: what is on its way is no data file.
func TestFiles(t *testing.T) {
	n := &Node{Dir: t.TempDir()}
	dir := filepath.Join(n.Dir, "segments")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.store", "a.seg", "c.seg.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := n.Files(); !slices.Equal(got, []string{"a.seg", "b.store"}) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
