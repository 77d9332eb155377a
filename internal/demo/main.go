// Command demo shows what Chorale is for, with real processes: three nodes on
// loopback, a real stream, a leader killed in the middle, and recoveries from
// every node that are compared with what was sent, message by message. It exits
// non-zero on any difference, and leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"chorale/internal/procs"
)

func main() {
	binary := flag.String("chorale", "bin/chorale", "the program to show")
	data := flag.String("data", "testdata/forge.tsv.zst", "the stream to import")
	limit := flag.Duration("limit", 3*time.Minute, "give up after so long")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := run(ctx, *binary, *data); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			err = errors.New("interrupted; the nodes are stopped and their folder is removed")
		}
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// run plays the demo in a folder of its own and cleans up whatever happens.
func run(ctx context.Context, binary, data string) (err error) {
	begun := time.Now()
	dir, err := os.MkdirTemp("", "chorale-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := procs.New(binary, dir, 3)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			c.PrintLogs(os.Stderr)
		}
		c.Stop()
	}()
	stream, err := load(data)
	if err != nil {
		return err
	}
	say("Three nodes on loopback, each a process of its own, and a stream of\n"+
		"%s messages (%s): the change feed of 25 public repositories.\n\n",
		count(len(stream.messages)), megabytes(stream.bytes))
	leader, err := found(ctx, c)
	if err != nil {
		return err
	}
	killed, err := importStream(ctx, c, stream, leader)
	if err != nil {
		return err
	}
	if err := recoverAll(ctx, c, stream, killed); err != nil {
		return err
	}
	say("\nEvery message that was acknowledged is there once, in order, with its bytes,\n"+
		"on every node. The whole demo took %s.\n", seconds(time.Since(begun)))
	return nil
}

// step prints a line of the story: what happened, and how long it took.
func step(took time.Duration, format string, args ...any) {
	fmt.Printf("%8s  %s\n", seconds(took), fmt.Sprintf(format, args...))
}

func say(format string, args ...any) { fmt.Printf(format, args...) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func rate(n int, took time.Duration) string {
	return count(int(float64(n)/took.Seconds())) + " messages/s"
}

func count(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}

// found starts the nodes, waits until the cluster serves and says who leads it.
func found(ctx context.Context, c *procs.Cluster) (leader *procs.Node, err error) {
	begun := time.Now()
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	if leader, err = c.Leader(ctx); err != nil {
		return nil, err
	}
	step(time.Since(begun), "three nodes have met, founded a cluster and elected %s", leader.Name)
	return leader, nil
}
