package main

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"chorale/client"
	"chorale/internal/procs"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"
)

// atOnce is how many scripts run at a time, if the command line does not say: they wait for
// nodes far more than they compute.
const atOnce = "3"

// TestMain lets the scripts run the program as a process of its own.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"chorale": main})
}

// TestScripts runs what a user would type: testdata/*.txtar. A script finds four
// free ports from $PORT, $PORT2 and $PORT3 on, and CHORALE_ADDR is the API of
// a node at $PORT. Beside the usual commands it has
//
//	exits CODE COMMAND...     run it, want this exit code
//	payload FILE BYTES        make a file
//	lines FILE COUNT          make a file of numbered lines
//	pack FILE                 make FILE.gz and FILE.zst
//	gone                      wait until the oldest message is not the first one
//	grows FILE                wait until a file that something writes is not empty
//	within TIME REGEXP COMMAND...
//	                          run it until its output matches
//	cut PATTERN BYTES         cut bytes off the end of the first file of this name
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"PORT", "PORT2", "PORT3"} {
				ports, err := procs.FreePorts(4)
				if err != nil {
					return err
				}
				for i, suffix := range []string{"", "_HTTP", "_RAFT", "_GOSSIP"} {
					_, port, err := net.SplitHostPort(ports[i])
					if err != nil {
						return err
					}
					e.Setenv(name+suffix, port)
				}
			}
			// Otherwise each command of a script sleeps a second before it ends, if the race
			// detector is in it.
			e.Setenv("GORACE", "atexit_sleep_ms=10")
			e.Setenv("CHORALE_ADDR", "127.0.0.1:"+e.Getenv("PORT"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"within":  within,
			"payload": payload,
			"lines":   lines,
			"pack":    pack,
			"cut":     cut,
			"gone":    gone,
			"risen":   risen,
			"grows":   grows,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func payload(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat("x", n)), 0o600))
}

func lines(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}

func pack(ts *testscript.TestScript, _ bool, args []string) {
	text := []byte(ts.ReadFile(args[0]))
	gz, err := os.Create(ts.MkAbs(args[0] + ".gz"))
	ts.Check(err)
	w := gzip.NewWriter(gz)
	_, err = w.Write(text)
	ts.Check(errors.Join(err, w.Close(), gz.Close()))
	e, err := zstd.NewWriter(nil)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".zst"), e.EncodeAll(text, nil), 0o600))
}

func gone(ts *testscript.TestScript, _ bool, _ []string) {
	c, err := client.Dial([]string{ts.Getenv("CHORALE_ADDR")}, client.Options{})
	ts.Check(err)
	defer c.Close()
	for range 300 {
		kept, err := c.Retention(context.Background())
		ts.Check(err)
		if kept.OldestSeq > 2 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	ts.Fatalf("nothing has gone within 30 s")
}

// risen waits until the floor of a filter has come to a seq.
func risen(ts *testscript.TestScript, _ bool, args []string) {
	c, err := client.Dial([]string{ts.Getenv("CHORALE_ADDR")}, client.Options{})
	ts.Check(err)
	defer c.Close()
	for range 300 {
		kept, err := c.Retention(context.Background())
		ts.Check(err)
		for _, f := range kept.Floors {
			if f.Filter == args[0] && fmt.Sprint(f.Seq) == args[1] {
				return
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	ts.Fatalf("of %s not everything before %s has gone within 30 s", args[0], args[1])
}

func grows(ts *testscript.TestScript, _ bool, args []string) {
	for range 300 {
		if info, err := os.Stat(ts.MkAbs(args[0])); err == nil && info.Size() > 0 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	ts.Fatalf("%s is empty after 30 s", args[0])
}

func cut(ts *testscript.TestScript, _ bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no file %s", args[0])
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	info, err := os.Stat(files[0])
	ts.Check(err)
	ts.Check(os.Truncate(files[0], info.Size()-n))
}
