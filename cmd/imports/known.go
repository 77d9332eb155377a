package imports

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"chorale/api"
	"chorale/client"
	"chorale/cmd/show"
	"chorale/internal/tsv"
	"chorale/topic"
)

// A hash knows its text, a name does not: under a name another text may come. The
// cluster would take its first lines for those that it has, and they were lost. So
// an import under a name reads back what is stored and compares it with the text,
// before it publishes anything.

const (
	// So much of the text is compared at a time.
	chunkLines = 16 << 10
	chunkBytes = 4 << 20
	// shownBytes of a payload tell it from another.
	shownBytes = 40
)

// storedLine is a line that the cluster has, it says, as the message seq.
type storedLine struct {
	tsv.Line
	seq uint64
}

// known compares lines that the cluster has with those that it stored.
type known struct {
	client  *client.Client
	name    string
	cap     int64
	timeout time.Duration
	waiting func(client.Wait)
	id      client.ProducerID
	await   func(ask func() error) error

	// lines are not compared yet; the first has this number.
	lines []tsv.Line
	first uint64
	bytes int
	// What became of the others: unkept are those that could not be compared.
	compared, unkept uint64
	buf              []byte
}

// add takes the next line and its number.
func (k *known) add(ctx context.Context, number uint64, line tsv.Line) error {
	if len(k.lines) == 0 {
		k.first = number
	}
	k.lines = append(k.lines, line)
	k.bytes += len(line.Topic) + len(line.Short)
	if len(k.lines) < chunkLines && k.bytes < chunkBytes {
		return nil
	}
	return k.flush(ctx)
}

// finish compares what is left and says what could not be compared.
func (k *known) finish(ctx context.Context, notes io.Writer) error {
	if err := k.flush(ctx); err != nil || k.unkept == 0 {
		return err
	}
	if k.compared == 0 {
		return fmt.Errorf("of what was stored under --producer %s nothing is kept that this text could be compared with; nothing was published.\n"+
			"If it is the same text, import what follows its first %s under another name", k.name, show.Plural(k.unkept, "line"))
	}
	fmt.Fprintf(notes, "%s could not be compared with what was stored of them, which is not kept\n", show.Plural(k.unkept, "line"))
	k.unkept = 0
	return nil
}

// flush finds out where the first and the last of the lines are stored, and compares
// what lies between, as far back as it is kept and its place is known.
func (k *known) flush(ctx context.Context) error {
	lines, number := k.lines, k.first
	k.lines, k.bytes = k.lines[:0], 0
	if len(lines) == 0 {
		return nil
	}
	var kept *api.GetRetentionResponse
	err := k.await(func() (err error) {
		kept, err = k.client.Retention(ctx)
		return err
	})
	if err != nil {
		return err
	}
	at := func(i int) (seq uint64, isKept bool) {
		if err == nil {
			seq, err = k.seqOf(ctx, number+uint64(i), lines[i])
		}
		return seq, err == nil && seq > 0 && seq >= kept.OldestSeq
	}
	gone := 0
	to, ok := at(len(lines) - 1)
	from, all := at(0)
	switch {
	case !ok:
		gone = len(lines)
	case !all: // what is forgotten or not kept stands before what is
		gone = sort.Search(len(lines)-1, func(i int) bool { _, ok := at(i); return ok })
		from, _ = at(gone)
	}
	k.unkept += uint64(gone)
	if err != nil || gone == len(lines) {
		return err
	}
	return k.compare(ctx, number+uint64(gone), lines[gone:], from, to)
}

// seqOf is where the message of a number is stored; 0 if the cluster has forgotten
// that. It sends the line under its number again, which stores nothing.
func (k *known) seqOf(ctx context.Context, number uint64, line tsv.Line) (uint64, error) {
	pub, err := k.client.Publisher(client.PublisherOptions{
		Producer: k.id, FirstNumber: number, GiveUpAfter: k.timeout, OnWait: k.waiting,
	})
	if err != nil {
		return 0, err
	}
	ack, err := pub.Publish(ctx, client.Message{Topic: line.Topic, Payload: line.Payload(nil, k.cap)}).Wait(ctx)
	if closed := pub.Close(ctx); err == nil {
		err = closed
	}
	if err == nil && !ack.Duplicate {
		err = fmt.Errorf("the cluster has forgotten --producer %s meanwhile: import again", k.name)
	}
	return ack.Seq, err
}

// compare holds the lines against the messages from..to, which are the places of the
// first and the last of them.
func (k *known) compare(ctx context.Context, number uint64, lines []tsv.Line, from, to uint64) error {
	n := len(lines)
	if to-from == uint64(n)-1 {
		return k.compareAlone(ctx, lines, from, to)
	}
	left := lines
	err := k.read(ctx, topicsOf(lines), from, to, func(d client.Delivery) (done bool, err error) {
		if k.same(left[0], d) {
			left = left[1:]
		}
		return len(left) == 0, nil
	})
	if err != nil || len(left) == 0 {
		k.compared += uint64(n - len(left))
		return err
	}
	// They do not all stand there in order. One half at least has a line of which the
	// same is true, down to a line alone, whose place is known.
	half := n / 2
	end, err := k.seqOf(ctx, number+uint64(half)-1, lines[half-1])
	if err != nil {
		return err
	}
	begin, err := k.seqOf(ctx, number+uint64(half), lines[half])
	if err != nil {
		return err
	}
	if end == 0 || begin == 0 {
		k.unkept += uint64(n)
		return nil
	}
	if err := k.compare(ctx, number, lines[:half], from, end); err != nil {
		return err
	}
	return k.compare(ctx, number+uint64(half), lines[half:], begin, to)
}

// compareAlone is compare where nothing else was stored in between: each message is
// the next line, but for those that are not kept.
func (k *known) compareAlone(ctx context.Context, lines []tsv.Line, from, to uint64) error {
	found := uint64(0)
	err := k.read(ctx, []string{"**"}, from, to, func(d client.Delivery) (done bool, err error) {
		found++
		if line := lines[d.Seq-from]; !k.same(line, d) {
			return true, k.differs(line, d)
		}
		return d.Seq == to, nil
	})
	k.compared += found
	k.unkept += uint64(len(lines)) - found
	return err
}

// repeated compares lines that someone else stored at the same time: this import
// sent them, and was told where they are.
func (k *known) repeated(ctx context.Context, lines []storedLine) error {
	slices.SortFunc(lines, func(a, b storedLine) int { return cmp.Compare(a.seq, b.seq) })
	for len(lines) > 0 {
		n := min(len(lines), chunkLines)
		if err := k.sameAt(ctx, lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

func (k *known) sameAt(ctx context.Context, left []storedLine) error {
	// Of every topic, because the message in a line's place may have another.
	return k.read(ctx, []string{"**"}, left[0].seq, left[len(left)-1].seq, func(d client.Delivery) (bool, error) {
		for left[0].seq < d.Seq { // it is not kept
			left = left[1:]
		}
		if left[0].seq > d.Seq {
			return false, nil
		}
		if !k.same(left[0].Line, d) {
			return true, fmt.Errorf("line %d was not stored: another text was imported under --producer %s at the same time; "+
				"give each text its own name", left[0].Number, k.name)
		}
		left = left[1:]
		return len(left) == 0, nil
	})
}

// read visits the messages from..to until it is done, or they are gone.
func (k *known) read(ctx context.Context, filters []string, from, to uint64, visit func(client.Delivery) (done bool, err error)) error {
	opening, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	sub, err := k.client.Subscribe(opening, client.SubscribeOptions{
		Filters: filters, From: client.AfterSeq(from - 1), UntilTip: true, OnWait: k.waiting,
	})
	if errors.Is(err, client.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	for d, err := range sub.Messages(ctx) {
		if errors.Is(err, client.ErrGone) || err == nil && d.Seq > to {
			return nil
		}
		if err != nil {
			return err
		}
		if done, err := visit(d); err != nil || done {
			return err
		}
	}
	return nil
}

// same reports whether the message is the line, imported with whatever --cap.
func (k *known) same(line tsv.Line, d client.Delivery) bool {
	k.buf = line.Payload(k.buf[:0], int64(len(d.Payload)))
	return line.Topic == d.Topic && bytes.Equal(k.buf, d.Payload)
}

func (k *known) differs(line tsv.Line, d client.Delivery) error {
	return fmt.Errorf("line %d, of topic %q and payload %s, is not what was stored under --producer %s: seq %d has topic %q and payload %s.\n"+
		"Nothing was published. A name stands for one text, which may grow but not change: give this one another name",
		line.Number, line.Topic, beginning([]byte(line.Short)), k.name, d.Seq, d.Topic, beginning(d.Payload))
}

// beginning is a payload as an error shows it, without what padding added.
func beginning(payload []byte) string {
	short, _, _ := bytes.Cut(payload, []byte("\n"))
	if len(short) > shownBytes {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(string(short[:shownBytes]), ""))
	}
	return fmt.Sprintf("%q", short)
}

// topicsOf is a set of filters that wants the lines.
func topicsOf(lines []tsv.Line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Topic)
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > topic.MaxFilters {
		return []string{"**"}
	}
	return out
}
