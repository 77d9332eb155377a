package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"chorale/client"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/cmd/stdin"
	"chorale/message"
	"chorale/topic"

	"github.com/spf13/cobra"
)

const publishLong = `Publish messages and print the seq of each, once it is fsynced on a majority.

  chorale publish TOPIC PAYLOAD...       each payload is a message
  chorale publish --topic TOPIC          each line of stdin is a message
  chorale publish                        lines of stdin: topic, a tab, payload

A line ends in LF or in CR LF, and neither is part of the payload; a last line may
end without. A payload with a line end in it is given as an argument.

--atomic stores all of them one behind the other, or none. --expect SEQ stores
the (first) message only if SEQ is the last seq of its topic; 0 means that the
topic must not exist yet.`

const publishExample = `  chorale publish app/orders/created '{"id": 1}'
  tail -f access.log | chorale publish --topic web/access
  chorale publish --expect 0 --header type=genesis app/ledger 'first entry'
  printf 'a/debit\t10\nb/credit\t10\n' | chorale publish --atomic`

type publishCmd struct {
	connect.Connection
	topic   string
	headers []string
	expect  uint64
	atomic  bool
	quiet   bool
	json    bool
	timeout time.Duration
}

func newPublishCmd() *cobra.Command {
	var p publishCmd
	cmd := &cobra.Command{
		Use:     "publish [TOPIC PAYLOAD...]",
		Short:   "Publish messages from the arguments or from stdin",
		Long:    publishLong,
		Example: publishExample,
		RunE:    p.run,
	}
	f := cmd.Flags()
	p.AddFlags(cmd)
	f.StringVar(&p.topic, "topic", "", "publish the lines of stdin to this `topic`")
	f.StringArrayVar(&p.headers, "header", nil, "header of every message, `key=value`; may be repeated")
	f.Uint64Var(&p.expect, "expect", 0, "store only if this `seq` is the topic's last; 0: if there is no such topic")
	f.BoolVar(&p.atomic, "atomic", false, "store all messages together or none")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "print neither seqs nor that it waits")
	f.BoolVar(&p.json, "json", false, "print each seq and topic as a JSON object")
	p.timeout = 15 * time.Second
	f.Var(settings.Span(&p.timeout), "timeout", "give up on a message that is not acknowledged for so long")
	cmd.ValidArgsFunction = connect.CompleteTopic(&p.Connection)
	if err := cmd.RegisterFlagCompletionFunc("topic", connect.CompleteTopic(&p.Connection)); err != nil {
		panic(err) // there is no such flag
	}
	return cmd
}

func (p *publishCmd) run(cmd *cobra.Command, args []string) error {
	if p.quiet && p.json {
		return settings.Usagef("--quiet prints nothing, so --json has no meaning with it")
	}
	source, err := p.source(cmd, args)
	if err != nil {
		return err
	}
	c, err := p.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	options := client.PublisherOptions{GiveUpAfter: p.timeout}
	if !p.quiet {
		options.OnWait = connect.Waiting(cmd.ErrOrStderr())
	}
	pub, err := c.Publisher(options)
	if err != nil {
		return err
	}
	if p.atomic || cmd.Flags().Changed("expect") {
		return p.Explain(p.unit(cmd, pub, source))
	}
	return p.Explain(p.each(cmd, pub, source))
}

// source yields the messages of the arguments or of stdin.
func (p *publishCmd) source(cmd *cobra.Command, args []string) (iter.Seq2[client.Message, error], error) {
	headers, err := parseHeaders(p.headers)
	if err != nil {
		return nil, err
	}
	name := p.topic
	if len(args) > 0 {
		name = args[0]
	}
	if err := topic.Validate(name); err != nil && (len(args) > 0 || cmd.Flags().Changed("topic")) {
		return nil, &settings.UsageError{Err: err}
	}
	switch {
	case len(args) == 1 && p.topic == "":
		return nil, settings.Usagef("no payload for topic %s: give it as an argument, or its lines on stdin with --topic %s", args[0], args[0])
	case len(args) > 0 && p.topic != "":
		return nil, settings.Usagef("--topic is for lines of stdin; with payloads as arguments the first argument is the topic")
	case len(args) > 0:
		return func(yield func(client.Message, error) bool) {
			for _, payload := range args[1:] {
				if !yield(client.Message{Topic: args[0], Headers: headers, Payload: []byte(payload)}, nil) {
					return
				}
			}
		}, nil
	case show.IsTerminal(cmd.InOrStdin()):
		what := "TOPIC, a tab, PAYLOAD"
		if p.topic != "" {
			what = "a payload for " + p.topic
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "a message a line: %s; Ctrl-D ends\n", what)
	}
	return p.typed(cmd.Context(), cmd.InOrStdin(), headers), nil
}

func (p *publishCmd) typed(ctx context.Context, in io.Reader, headers []client.Header) iter.Seq2[client.Message, error] {
	return func(yield func(client.Message, error) bool) {
		n := 0
		for line, err := range stdin.Lines(ctx, in) {
			n++
			name, payload := p.topic, line
			if err == nil && name == "" {
				var ok bool
				if name, payload, ok = strings.Cut(line, "\t"); !ok {
					err = fmt.Errorf("line %d of stdin: no tab: want topic, a tab, payload; or name the topic by --topic", n)
				} else if err = topic.Validate(name); err != nil {
					err = fmt.Errorf("line %d of stdin: %w", n, err)
				}
			}
			if !yield(client.Message{Topic: name, Headers: headers, Payload: []byte(payload)}, err) || err != nil {
				return
			}
		}
	}
}

// each publishes message by message, many in flight. The first error ends it;
// what was accepted before is still waited for.
func (p *publishCmd) each(cmd *cobra.Command, pub *client.Publisher, source iter.Seq2[client.Message, error]) error {
	ctx, stop := context.WithCancelCause(cmd.Context())
	defer stop(nil)
	out := p.printer(cmd.OutOrStdout())
	publish := func() error {
		for m, err := range source {
			if err != nil {
				return err
			}
			err = pub.PublishFunc(ctx, m, func(a client.Ack, err error) {
				if err == nil {
					err = out.print(a.Seq, m.Topic)
				}
				if err != nil {
					stop(fmt.Errorf("topic %s: %w", m.Topic, err))
				}
			})
			if err != nil {
				return fmt.Errorf("topic %s: %w", m.Topic, err)
			}
		}
		return nil
	}
	err := publish()
	pub.Close(context.WithoutCancel(ctx))
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// unit publishes everything as one atomic unit.
func (p *publishCmd) unit(cmd *cobra.Command, pub *client.Publisher, source iter.Seq2[client.Message, error]) error {
	var unit []client.Message
	for m, err := range source {
		if err != nil {
			return err
		}
		if len(unit) == message.MaxBatchMessages {
			return settings.Usagef("more than %d messages in one unit", message.MaxBatchMessages)
		}
		unit = append(unit, m)
	}
	if len(unit) > 1 && !p.atomic {
		return settings.Usagef("--expect is for one message, or for several with --atomic")
	}
	if len(unit) == 0 {
		return nil
	}
	if cmd.Flags().Changed("expect") {
		unit[0].ExpectedLastSeq = &p.expect
	}
	ack, err := pub.PublishAtomic(cmd.Context(), unit...).Wait(cmd.Context())
	if err != nil {
		return p.conditionError(err, unit[0].Topic)
	}
	out := p.printer(cmd.OutOrStdout())
	for i, m := range unit {
		if err := out.print(ack.Seq+uint64(i), m.Topic); err != nil {
			return err
		}
	}
	return nil
}

// conditionError says in the user's words which condition failed.
func (p *publishCmd) conditionError(err error, topic string) error {
	var failed *client.ConditionError
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.LastSeq == 0:
		return fmt.Errorf("expected last seq %d of topic %s, which does not exist; nothing was stored", p.expect, topic)
	case p.expect == 0:
		return fmt.Errorf("expected that topic %s does not exist, its last seq is %d; nothing was stored", topic, failed.LastSeq)
	default:
		return fmt.Errorf("expected last seq %d of topic %s, it is %d; nothing was stored", p.expect, topic, failed.LastSeq)
	}
}

func parseHeaders(list []string) ([]client.Header, error) {
	var out []client.Header
	for _, h := range list {
		key, value, ok := strings.Cut(h, "=")
		if !ok || key == "" {
			return nil, settings.Usagef("--header %q: want key=value", h)
		}
		out = append(out, client.Header{Key: key, Value: []byte(value)})
	}
	return out, nil
}

// ackPrinter prints what was stored, from whichever goroutine hears of it.
type ackPrinter struct {
	mu    sync.Mutex
	write func(seq uint64, topic string) error
}

func (p *publishCmd) printer(out io.Writer) *ackPrinter {
	objects := json.NewEncoder(out)
	return &ackPrinter{write: func(seq uint64, topic string) (err error) {
		switch {
		case p.json:
			err = objects.Encode(struct {
				Seq   uint64 `json:"seq"`
				Topic string `json:"topic"`
			}{seq, topic})
		case !p.quiet:
			_, err = fmt.Fprintf(out, "%d\t%s\n", seq, topic)
		}
		return err
	}}
}

func (p *ackPrinter) print(seq uint64, topic string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write(seq, topic)
}
