package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"chorale/client"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/topic"

	"github.com/spf13/cobra"
)

const subscribeLong = `Print the messages that the filters match, in order, each once, from a start to
the live end; --until-tip stops at the newest message of now.

  a/b     one topic              a/*/c   one level open
  a/b/**  it and all below it    **      everything

--from says where to start:

  first   the oldest message that the cluster keeps (the default)
  tip     the next message that is stored
  SEQ     this sequence number, itself included; one beyond the end is an error
  TIME    2026-01-31T09:00:00Z, 2026-01-31 09:00, 2026-01-31 (local, without zone)
  -AGE    so long ago: -90s, -2h, -3d

While no node can serve it, it waits, and says why on stderr. There it also says of
which topics messages had expired (chorale retention) before they were delivered.

Text is seq, time, topic and payload, parted by tabs (a payload that is no line of
text is quoted); json is an object a line; raw is the payload and a newline.`

const subscribeExample = `  chorale subscribe 'app/orders/**' --from -2h
  chorale subscribe 'app/**' 'web/*/errors' --from first --until-tip --output json`

type subscribeCmd struct {
	connect.Connection
	from     string
	untilTip bool
	limit    uint64
	output   settings.Choice
	timeout  time.Duration
}

func newSubscribeCmd() *cobra.Command {
	s := subscribeCmd{output: settings.Choice{Value: show.Text, Allowed: []string{show.Text, show.JSON, show.Raw}}}
	cmd := &cobra.Command{
		Use:     "subscribe FILTER...",
		Short:   "Print messages, from any point of the past to the live end",
		Long:    subscribeLong,
		Example: subscribeExample,
		Args:    cobra.MinimumNArgs(1),
		RunE:    s.run,
	}
	s.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.from, "from", "first", "`where` to start: first, tip, SEQ, TIME or -AGE")
	f.BoolVar(&s.untilTip, "until-tip", false, "stop at the newest message of now")
	f.Uint64VarP(&s.limit, "limit", "n", 0, "stop after so `many` messages; 0 means never")
	f.VarP(&s.output, "output", "o", "format of a message")
	s.timeout = 15 * time.Second
	f.Var(settings.Span(&s.timeout), "timeout", "give up if no node has opened the subscription for so long")
	cmd.ValidArgsFunction = connect.CompleteTopics(&s.Connection)
	settings.CompleteFlag(cmd, "from", "first", "tip")
	return cmd
}

// checkFilters makes a bad filter an error of usage.
func checkFilters(filters []string) error {
	if _, err := topic.ParseFilters(filters...); err != nil {
		return &settings.UsageError{Err: err}
	}
	return nil
}

func (s *subscribeCmd) run(cmd *cobra.Command, filters []string) error {
	if err := checkFilters(filters); err != nil {
		return err
	}
	p, err := settings.ParsePosition(s.from, time.Now())
	if err != nil {
		return settings.Usagef("--from: %w", err)
	}
	c, err := s.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	bar := &progress{w: cmd.ErrOrStderr(), limit: s.limit}
	bar.watched = s.untilTip && show.IsTerminal(cmd.ErrOrStderr()) && !show.IsTerminal(cmd.OutOrStdout())
	sub, err := s.open(cmd.Context(), c, client.SubscribeOptions{
		Filters: filters, From: startOf(p), UntilTip: s.untilTip, OnWait: connect.Waiting(bar), OnExpired: expired(bar),
	})
	if err != nil {
		return s.Explain(err)
	}
	defer sub.Close()
	end := bar.begin(cmd.Context(), c, sub)
	err = s.print(cmd, sub, bar)
	end()
	if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil && !s.untilTip {
		// To follow has no end but the reader's wish.
		if show.IsTerminal(cmd.ErrOrStderr()) {
			fmt.Fprintf(cmd.ErrOrStderr(), "\nto go on: --from %d\n", sub.Position().Seq+1)
		}
		return nil
	}
	return s.Explain(err)
}

// open bounds how long the opening may take; what is open may last for ever.
func (s *subscribeCmd) open(ctx context.Context, c *client.Client, o client.SubscribeOptions) (*client.Subscription, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sub, err := c.Subscribe(limited, o)
	if errors.Is(err, context.DeadlineExceeded) {
		why := strings.TrimPrefix(err.Error(), context.DeadlineExceeded.Error()+"; ")
		return nil, fmt.Errorf("%w after %s: %s", client.ErrUnavailable, s.timeout, why)
	}
	return sub, err
}

// expiredTold is how many topics are named whose messages had expired.
const expiredTold = 10

// expired prints to w which messages a policy of their subtree had let go.
func expired(w io.Writer) func(client.Expired) {
	told := 0
	return func(e client.Expired) {
		switch told++; {
		case told <= expiredTold:
			fmt.Fprintf(w, "chorale: messages of %s behind seq %s up to %s had expired before they were delivered\n", e.Topic, show.Count(e.After), show.Count(e.Last))
		case told == expiredTold+1:
			fmt.Fprintln(w, "chorale: further messages had expired, too; no more of them are named")
		}
	}
}

// startOf is a position in the client's words.
func startOf(p settings.Position) client.Start {
	switch {
	case p.Tip:
		return client.Tip()
	case p.Seq > 0:
		return client.AfterSeq(p.Seq - 1)
	case !p.First:
		return client.FromTime(p.At)
	default:
		return client.First()
	}
}

// print writes batch by batch, and flushes behind each: a batch is what there is
// at once, so a live message is not held back, and a million cost few writes.
func (s *subscribeCmd) print(cmd *cobra.Command, sub *client.Subscription, bar *progress) error {
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 256<<10)
	write := show.Printer(s.output.Value)
	for n := uint64(0); ; {
		b, err := sub.NextBatch(cmd.Context())
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for d := range b.All() {
			if err := write(out, d); err != nil {
				return err
			}
			if n++; n == s.limit {
				return out.Flush()
			}
		}
		bar.add(b, sub.TipSeq())
		b.Release()
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
