// Package imports is the command that publishes a sample stream, each line once.
package imports

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"chorale/client"
	"chorale/client/waits"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/cmd/stdin"
	"chorale/internal/tsv"

	"github.com/spf13/cobra"
)

const long = `Publish a sample stream: a text file, plain or compressed by gzip or zstd, with
lines of four columns parted by tabs,

  unix seconds   topic   size in bytes   short payload

The payload is the short one, padded with text to the smaller of size and --cap;
the padding depends on the line alone.

An import can be interrupted, repeated and shared: each line is stored once, also
if the same text comes from another machine or is compressed another way, because
the cluster knows the text by its hash and remembers how far it came. Text from
stdin ("-") cannot be read twice, so it needs a name, --producer, to be known by.

A name stands for one text. The text may grow: then what is new is stored. What
was stored under the name before is read back and compared with the text; where a
line differs, nothing is published, and the error names the line.

A malformed line ends the import; what stands before it is stored, nothing behind
it is. --skip-bad leaves such lines out and counts them.`

type command struct {
	connect.Connection
	producer string
	cap      settings.Size
	skipBad  bool
	json     bool
	timeout  time.Duration
}

// New makes the command.
func New() *cobra.Command {
	p := command{cap: 1024, timeout: time.Minute}
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Publish a sample stream from a file, each line once",
		Long:  long,
		Example: `  chorale import testdata/forge.tsv.zst
  zcat feed.tsv.gz | head -1000 | chorale import --producer feed-1000 -`,
		Args: cobra.ExactArgs(1),
		RunE: p.run,
	}
	p.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&p.producer, "producer", "", "`name` that the text is known by, instead of its hash")
	f.Var(&p.cap, "cap", "longest payload that padding makes")
	f.BoolVar(&p.skipBad, "skip-bad", false, "leave malformed lines out, and count them")
	f.BoolVar(&p.json, "json", false, "print what was stored as a JSON object")
	f.Var(settings.Span(&p.timeout), "timeout", "give up on a message that is not acknowledged for so long")
	return cmd
}

func (p *command) run(cmd *cobra.Command, args []string) error {
	if p.cap < 0 || p.cap > stdin.MaxLineBytes {
		return settings.Usagef("--cap %s: want at most %s", &p.cap, show.Bytes(stdin.MaxLineBytes))
	}
	text, err := p.open(cmd, args[0])
	if err != nil {
		return err
	}
	defer text.close()
	c, err := p.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	run := &job{command: p, cmd: cmd, text: text}
	run.bar = show.NewProgress(cmd.ErrOrStderr(), text.lines, "lines")
	waiting := func(w client.Wait) {
		run.bar.Close() // it comes back with the next line
		connect.Waiting(cmd.ErrOrStderr())(w)
	}
	await := func(ask func() error) error { return p.await(cmd.Context(), waiting, ask) }
	err = await(func() (err error) {
		run.before, err = c.LastNumber(cmd.Context(), text.id)
		return err
	})
	if err != nil {
		return p.Explain(err)
	}
	run.pub, err = c.Publisher(client.PublisherOptions{
		Producer: text.id, FirstNumber: run.before + 1, GiveUpAfter: p.timeout, OnWait: waiting,
	})
	if err != nil {
		return err
	}
	if p.producer != "" {
		run.known = &known{client: c, name: p.producer, cap: int64(p.cap), timeout: p.timeout, waiting: waiting, await: await, id: text.id}
	}
	return p.Explain(run.run())
}

// await asks a question that only a leader can answer; where there is none for the
// moment it waits for it, as the import would midway.
func (p *command) await(ctx context.Context, waiting func(client.Wait), ask func() error) error {
	told := waits.New(waiting)
	defer told.End()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(p.timeout); ; {
		told.Trying("")
		err := ask()
		if err == nil {
			told.Serves()
		}
		if !errors.Is(err, client.ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
		told.Failed("", err)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// text is the text of an import and what it is known by.
type text struct {
	in    io.Reader
	close func()
	id    client.ProducerID
	lines int64 // -1 if unknown
}

// open opens the text; a file is read through once for its hash and its length.
func (p *command) open(cmd *cobra.Command, name string) (*text, error) {
	if name == "-" {
		if p.producer == "" {
			return nil, settings.Usagef("text from stdin needs a name to be known by: --producer NAME")
		}
		in := stdin.Interruptible(cmd.Context(), cmd.InOrStdin())
		return &text{in: in, close: func() {}, id: producerOf("name", []byte(p.producer)), lines: -1}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	t := &text{in: f, close: func() { f.Close() }}
	if err := t.survey(cmd.Context()); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if p.producer != "" {
		t.id = producerOf("name", []byte(p.producer))
	}
	_, err = f.Seek(0, io.SeekStart)
	return t, err
}

// survey reads the text to its end, so that a file that is cut or damaged is
// found out before anything is sent.
func (t *text) survey(ctx context.Context) error {
	text, err := tsv.Decompress(t.in)
	if err != nil {
		return err
	}
	defer text.Close()
	hash, buf := sha256.New(), make([]byte, 256<<10)
	for last := byte('\n'); ; {
		n, err := text.Read(buf)
		hash.Write(buf[:n])
		t.lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if n > 0 {
			last = buf[n-1]
		}
		if err == io.EOF {
			if last != '\n' {
				t.lines++
			}
			t.id = producerOf("text", hash.Sum(nil))
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
}

// producerOf derives a producer from what it is known by.
func producerOf(kind string, key []byte) (id client.ProducerID) {
	sum := sha256.Sum256(append([]byte("chorale import "+kind+"\n"), key...))
	copy(id[:], sum[:])
	return id
}

// job is one run over the text.
type job struct {
	*command
	cmd    *cobra.Command
	text   *text
	pub    *client.Publisher
	bar    *show.Progress
	before uint64 // lines that earlier runs stored
	known  *known // nil if the text is known by its hash

	mu       sync.Mutex
	repeated []storedLine // that this run sent and someone else had stored

	number, skipped uint64       // well-formed and malformed lines so far
	stored, bytes   atomic.Int64 // messages acknowledged to this run, and their payloads
}

func (r *job) run() error {
	ctx, stop := context.WithCancelCause(r.cmd.Context())
	defer stop(nil)
	r.bar.Set(int64(r.before))
	begun := time.Now()
	err := r.publish(ctx, stop)
	// What was accepted is waited for whatever happened, so that the sum is right.
	closed := r.pub.Close(context.WithoutCancel(ctx))
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	r.bar.Close()
	told := r.summary(time.Since(begun))
	if err = cmp.Or(err, closed, told); err == nil && r.known != nil {
		err = r.known.repeated(ctx, r.repeated)
	}
	return err
}

// publish sends the lines that earlier runs did not store.
func (r *job) publish(ctx context.Context, stop context.CancelCauseFunc) error {
	in, err := tsv.NewReader(r.text.in)
	if err != nil {
		return err
	}
	defer in.Close()
	var payload []byte
	for {
		line, err := in.Next()
		var malformed *tsv.LineError
		switch {
		case err == io.EOF && r.known != nil:
			return r.known.finish(ctx, r.cmd.ErrOrStderr())
		case err == io.EOF:
			return nil
		case errors.As(err, &malformed) && r.skipBad:
			r.skipped++
			continue
		case err != nil:
			return err
		}
		r.number++
		if err := r.compare(ctx, line); err != nil {
			return err
		}
		if r.number <= r.before {
			continue
		}
		payload = line.Payload(payload[:0], int64(r.cap))
		if err := r.send(ctx, stop, line, payload); err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
}

// compare holds a line of a text with a name against what earlier runs stored. All of
// them are compared before the first line that is new.
func (r *job) compare(ctx context.Context, line tsv.Line) error {
	switch {
	case r.known == nil:
		return nil
	case r.number <= r.before:
		return r.known.add(ctx, r.number, line)
	case r.number == r.before+1:
		return r.known.finish(ctx, r.cmd.ErrOrStderr())
	}
	return nil
}

func (r *job) send(ctx context.Context, stop context.CancelCauseFunc, line tsv.Line, payload []byte) error {
	size := int64(len(payload))
	return r.pub.PublishFunc(ctx, client.Message{Topic: line.Topic, Payload: payload}, func(a client.Ack, err error) {
		if err != nil {
			stop(err)
			return
		}
		if r.known != nil && a.Duplicate && !a.Forgotten {
			r.mu.Lock()
			r.repeated = append(r.repeated, storedLine{line, a.Seq})
			r.mu.Unlock()
		}
		r.bytes.Add(size)
		r.bar.Set(int64(r.before) + r.stored.Add(1))
	})
}

func (r *job) summary(took time.Duration) error {
	w, stored := r.cmd.ErrOrStderr(), uint64(r.stored.Load())
	if r.json {
		return json.NewEncoder(r.cmd.OutOrStdout()).Encode(struct {
			Stored  uint64  `json:"stored"`
			Bytes   int64   `json:"bytes"`
			Seconds float64 `json:"seconds"`
			Before  uint64  `json:"stored_before"`
			Skipped uint64  `json:"skipped_lines"`
		}{stored, r.bytes.Load(), took.Seconds(), r.before, r.skipped})
	}
	fmt.Fprintf(w, "%s stored", show.Plural(stored, "message"))
	if stored > 0 {
		fmt.Fprintf(w, " (%s) in %.1f s: %s a second", show.Bytes(uint64(r.bytes.Load())), took.Seconds(), show.Count(uint64(float64(stored)/took.Seconds())))
	}
	if r.before > 0 {
		fmt.Fprintf(w, "; %s were stored before", show.Count(r.before))
	}
	if r.skipped > 0 {
		fmt.Fprintf(w, "; %s skipped", show.Plural(r.skipped, "malformed line"))
	}
	_, err := fmt.Fprintln(w)
	return err
}
