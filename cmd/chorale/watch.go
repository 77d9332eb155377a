package main

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"chorale/client"
	"chorale/cmd/settings"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

// look is one answer of all nodes to status --watch.
type look struct {
	at    time.Time
	nodes []show.NodeStatus
	err   error // none answered, or they are of several clusters
}

// last is the newest message that any node knows of; ok is whether any answered.
func (l look) last() (seq uint64, ok bool) {
	for _, n := range l.nodes {
		if n.Err == nil {
			seq, ok = max(seq, n.Status.LastSeq), true
		}
	}
	return seq, ok
}

// rate is how many messages came a second since the look before, as a person reads it; ""
// where that is not known.
func (l look) rate(before look) string {
	now, ok := l.last()
	then, had := before.last()
	if !ok || !had || now < then || !l.at.After(before.at) {
		return ""
	}
	perSecond := float64(now-then) / l.at.Sub(before.at).Seconds()
	return fmt.Sprintf(", %s messages/s", show.Count(uint64(perSecond+0.5)))
}

// keepLooking shows the status until it is interrupted, which is no error. Nodes that do
// not answer are part of what it shows.
func (s *statusCmd) keepLooking(cmd *cobra.Command, c *client.Client) error {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	out := cmd.OutOrStdout()
	terminal := show.IsTerminal(out)
	var before look
	for {
		now := look{at: time.Now()}
		now.nodes, now.err = s.ask(cmd.Context(), c)
		if cmd.Context().Err() != nil {
			return nil
		}
		if now.err == nil {
			now.err = oneCluster(now.nodes)
		}
		if err := s.print(out, terminal, now, before); err != nil {
			return err
		}
		before = now
		select {
		case <-ticker.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}

func (s *statusCmd) print(out io.Writer, terminal bool, now, before look) error {
	if s.json {
		return show.StatusLine(out, now.at, now.nodes)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, every %s%s\n\n", now.at.Format(time.DateTime), settings.DurationString(s.every), now.rate(before))
	if now.err != nil {
		fmt.Fprintln(&b, s.Explain(now.err))
	} else if err := show.Status(&b, now.nodes); err != nil {
		return err
	}
	if terminal {
		return inPlace(out, b.Bytes(), before.at.IsZero())
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(out)
	return err
}

// inPlace writes over what stands on the terminal, line by line, so that nothing
// flickers; first clears it before. Lines that are too long end at the edge: wrapped, they
// would push others out of their place.
func inPlace(out io.Writer, text []byte, first bool) error {
	const home, restOfLine, below, all, cut, wrap = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J", "\x1b[?7l", "\x1b[?7h"
	var b bytes.Buffer
	if first {
		b.WriteString(all)
	}
	b.WriteString(cut + home)
	b.Write(bytes.ReplaceAll(text, []byte("\n"), []byte(restOfLine+"\n")))
	b.WriteString(below + wrap)
	_, err := b.WriteTo(out)
	return err
}
