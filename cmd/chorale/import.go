package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"chorale/client"
	"chorale/client/waits"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/internal/tsv"

	"github.com/spf13/cobra"
)

const importLong = `Publish a sample stream: a text file, plain or compressed by gzip or zstd, with
lines of four columns parted by tabs,

  unix seconds   topic   size in bytes   short payload

The payload is the short one, padded with text to the smaller of size and --cap;
the padding depends on the line alone.

An import can be interrupted, repeated and shared: each line is stored once, also
if the same text comes from another machine or is compressed another way, because
the cluster knows the text by its hash and remembers how far it came. Text from
stdin ("-") cannot be read twice, so it needs a name, --producer, to be known by.

A malformed line ends the import; what stands before it is stored, nothing behind
it is. --skip-bad leaves such lines out and counts them.`

type importCmd struct {
	connect.Connection
	producer string
	cap      settings.Size
	skipBad  bool
	timeout  time.Duration
}

func newImportCmd() *cobra.Command {
	p := importCmd{cap: 1024, timeout: time.Minute}
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Publish a sample stream from a file, each line once",
		Long:  importLong,
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
	f.Var((*settings.Span)(&p.timeout), "timeout", "give up on a message that is not acknowledged for so long")
	return cmd
}

func (p *importCmd) run(cmd *cobra.Command, args []string) error {
	if p.cap < 0 || p.cap > maxLineBytes {
		return settings.Usagef("--cap %s: want at most %s", &p.cap, show.Bytes(maxLineBytes))
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
	run := &importRun{importCmd: p, cmd: cmd, text: text}
	run.bar = show.NewProgress(cmd.ErrOrStderr(), text.lines, "lines")
	waiting := func(w client.Wait) {
		run.bar.Close() // it comes back with the next line
		connect.Waiting(cmd.ErrOrStderr())(w)
	}
	if run.before, err = p.stored(cmd.Context(), c, text.id, waiting); err != nil {
		return p.Explain(err)
	}
	run.pub, err = c.Publisher(client.PublisherOptions{
		Producer: text.id, FirstNumber: run.before + 1, GiveUpAfter: p.timeout, OnWait: waiting,
	})
	if err != nil {
		return err
	}
	return p.Explain(run.run())
}

// stored is how many lines earlier runs stored. Only a leader knows, and where
// there is none for the moment the import waits for it, as it would midway.
func (p *importCmd) stored(ctx context.Context, c *client.Client, id client.ProducerID, waiting func(client.Wait)) (uint64, error) {
	told := waits.New(waiting)
	defer told.End()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(p.timeout); ; {
		told.Trying("")
		n, err := c.LastNumber(ctx, id)
		if err == nil {
			told.Serves()
		}
		if !errors.Is(err, client.ErrUnavailable) || time.Now().After(deadline) {
			return n, err
		}
		told.Failed("", err)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// importText is the text of an import and what it is known by.
type importText struct {
	in    io.Reader
	close func()
	id    client.ProducerID
	lines int64 // -1 if unknown
}

// open opens the text; a file is read through once for its hash and its length.
func (p *importCmd) open(cmd *cobra.Command, name string) (*importText, error) {
	if name == "-" {
		if p.producer == "" {
			return nil, settings.Usagef("text from stdin needs a name to be known by: --producer NAME")
		}
		in := interruptible(cmd.Context(), cmd.InOrStdin())
		return &importText{in: in, close: func() {}, id: producerOf("name", []byte(p.producer)), lines: -1}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, &settings.UsageError{Err: err}
	}
	t := &importText{in: f, close: func() { f.Close() }}
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
func (t *importText) survey(ctx context.Context) error {
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

// importRun is one run over the text.
type importRun struct {
	*importCmd
	cmd    *cobra.Command
	text   *importText
	pub    *client.Publisher
	bar    *show.Progress
	before uint64 // lines that earlier runs stored

	number, skipped uint64       // well-formed and malformed lines so far
	stored, bytes   atomic.Int64 // messages acknowledged to this run, and their payloads
}

func (r *importRun) run() error {
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
	r.summary(time.Since(begun))
	return cmp.Or(err, closed)
}

// publish sends the lines that earlier runs did not store.
func (r *importRun) publish(ctx context.Context, stop context.CancelCauseFunc) error {
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
		case err == io.EOF:
			return nil
		case errors.As(err, &malformed) && r.skipBad:
			r.skipped++
			continue
		case err != nil:
			return err
		}
		if r.number++; r.number <= r.before {
			continue
		}
		payload = line.Payload(payload[:0], int64(r.cap))
		size := int64(len(payload))
		err = r.pub.PublishFunc(ctx, client.Message{Topic: line.Topic, Payload: payload}, func(_ client.Ack, err error) {
			if err != nil {
				stop(err)
				return
			}
			r.bytes.Add(size)
			r.bar.Set(int64(r.before) + r.stored.Add(1))
		})
		if err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
}

func (r *importRun) summary(took time.Duration) {
	w, stored := r.cmd.ErrOrStderr(), uint64(r.stored.Load())
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
	fmt.Fprintln(w)
}
