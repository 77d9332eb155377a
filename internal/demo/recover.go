package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"chorale/client"
	"chorale/internal/procs"
	"chorale/topic"
)

// recoverAll reads a small subtree, a medium one and everything, each from another
// node; everything comes from the node that was killed.
func recoverAll(ctx context.Context, c *procs.Cluster, s *stream, killed *procs.Node) error {
	begun := time.Now()
	last := uint64(len(s.messages))
	for _, p := range c.Nodes {
		if err := p.AwaitReady(ctx, last); err != nil {
			return err
		}
	}
	step(time.Since(begun), "until %s had caught up with the others", killed.Name)
	say("\nRecovery, each from another node, compared with the input message by message:\n\n")
	others := slices.DeleteFunc(slices.Clone(c.Nodes), func(p *procs.Node) bool { return p == killed })
	for _, r := range []struct {
		from   *procs.Node
		filter string
	}{{others[0], "packer/website/**"}, {others[1], "moby/**"}, {killed, "**"}} {
		if err := recoverFrom(ctx, r.from, s, r.filter); err != nil {
			return fmt.Errorf("%s from %s: %w", r.filter, r.from.Name, err)
		}
	}
	return nil
}

// recoverFrom reads from one node what the filter matches and holds it against
// the input.
func recoverFrom(ctx context.Context, p *procs.Node, s *stream, filter string) error {
	filters, err := topic.ParseFilters(filter)
	if err != nil {
		return err
	}
	c, err := procs.Dial(p)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	sub, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{filter}, UntilTip: true})
	if err != nil {
		return err
	}
	defer sub.Close()
	check := comparison{stream: s, filters: filters}
	for {
		batch, err := sub.NextBatch(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for d := range batch.All() {
			if err := check.message(d); err != nil {
				return err
			}
		}
		batch.Release()
	}
	if err := check.end(); err != nil {
		return err
	}
	took := time.Since(begun)
	step(took, "%-17s  from %s  %8s messages  %8s  no difference  %s", filter, p.Name, count(check.count), megabytes(check.bytes), rate(check.count, took))
	return nil
}

// comparison walks the input beside what is delivered.
type comparison struct {
	stream  *stream
	filters *topic.Filters
	next    int // line of the input
	seq     uint64
	count   int
	bytes   int64
	payload []byte
}

// skip moves to the next line of the input that the filter matches.
func (c *comparison) skip() bool {
	for ; c.next < len(c.stream.messages); c.next++ {
		if c.filters.Match(c.stream.messages[c.next].Topic) {
			return true
		}
	}
	return false
}

// message compares one delivered message with the line that is due.
func (c *comparison) message(d client.Delivery) error {
	if !c.skip() {
		return fmt.Errorf("seq %d (%s) is delivered behind the last line that the filter matches", d.Seq, d.Topic)
	}
	line := c.stream.messages[c.next]
	c.payload = line.Payload(c.payload[:0], payloadCap)
	switch {
	case d.Seq <= c.seq:
		return fmt.Errorf("seq %d is delivered behind seq %d", d.Seq, c.seq)
	case d.Topic != line.Topic:
		return fmt.Errorf("seq %d has topic %q, line %d of the input has %q", d.Seq, d.Topic, line.Number, line.Topic)
	case !bytes.Equal(d.Payload, c.payload):
		return fmt.Errorf("seq %d (%s) has a payload of %d bytes that differs from line %d, of %d bytes", d.Seq, d.Topic, len(d.Payload), line.Number, len(c.payload))
	case d.Seq != line.Number:
		return fmt.Errorf("seq %d (%s) is line %d of the input: a message is missing or there twice", d.Seq, d.Topic, line.Number)
	}
	c.next++
	c.seq = d.Seq
	c.count++
	c.bytes += int64(len(d.Payload))
	return nil
}

// end checks that nothing of the input is left.
func (c *comparison) end() error {
	if c.skip() {
		line := c.stream.messages[c.next]
		return fmt.Errorf("delivery ended before line %d (%s)", line.Number, line.Topic)
	}
	return nil
}
