package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestDump shows every byte of a record and of a batch with its meaning;
// docs/formats.md points here. After a change on purpose:
// go test ./message -run Dump -rewrite, a new version in docs/formats.md.
func TestDump(t *testing.T) {
	datadriven.RunTest(t, "testdata/dump", func(t *testing.T, d *datadriven.TestData) string {
		var out dump
		switch d.Cmd {
		case "record":
			var topic int
			var seq, prev, time uint64
			d.ScanArgs(t, "topic", &topic)
			d.ScanArgs(t, "seq", &seq)
			d.ScanArgs(t, "prev", &prev)
			d.ScanArgs(t, "time", &time)
			draft := parseEntry(t, d.Input).Draft
			out.record(AppendPadded(nil, NewRecord(draft, uint32(topic), seq, prev, int64(time))), false)
		case "batch":
			var producer string
			d.MaybeScanArgs(t, "producer", &producer)
			out.batch(buildBatch(t, producer, d.Input))
		default:
			d.Fatalf(t, "no command %s", d.Cmd)
		}
		return out.String()
	})
}

// buildBatch makes a batch of lines "NUMBER TOPIC [expect=SEQ] [KEY=VALUE..] PAYLOAD".
// Consecutive lines with one number are a unit.
func buildBatch(t testing.TB, producer, input string) []byte {
	var b Builder
	var unit []Entry
	var last uint64
	for line := range strings.SplitSeq(input, "\n") {
		number, rest, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if n != last && unit != nil {
			b.Add(last, unit...)
			unit = nil
		}
		topic, rest, _ := strings.Cut(rest, " ")
		e := parseEntry(t, rest)
		e.Topic = topic
		unit, last = append(unit, e), n
	}
	b.Add(last, unit...)
	var id ProducerID
	copy(id[:], producer)
	return b.Encode(nil, id)
}

func parseEntry(t testing.TB, line string) (e Entry) {
	for word := range strings.FieldsSeq(line) {
		key, value, pair := strings.Cut(word, "=")
		switch {
		case !pair:
			e.Draft.Payload = []byte(word)
		case key == "expect":
			seq, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			e.Expected = &seq
		default:
			e.Draft.Headers = append(e.Draft.Headers, Header{key, []byte(value)})
		}
	}
	return e
}

// dump writes fields as offset, bytes, meaning.
type dump struct {
	strings.Builder
	at int
}

func (d *dump) field(b []byte, n int, name string, value any) []byte {
	shown := hex.EncodeToString(b[:n])
	if n == 0 {
		shown = "-"
	}
	for i := 0; i < max(len(shown), 1); i += 16 {
		line := shown[i:min(i+16, len(shown))]
		if i == 0 {
			fmt.Fprintln(d, strings.TrimRight(fmt.Sprintf("%04x  %-16s  %-9s %v", d.at, line, name, value), " "))
		} else {
			fmt.Fprintf(d, "%04x  %s\n", d.at+i/2, line)
		}
	}
	d.at += n
	return b[n:]
}

func (d *dump) uint32(b []byte, name string) []byte {
	return d.field(b, 4, name, binary.LittleEndian.Uint32(b))
}

func (d *dump) uint64(b []byte, name, note string) []byte {
	return d.field(b, 8, name, fmt.Sprint(binary.LittleEndian.Uint64(b), note))
}

func (d *dump) sum(b []byte, name string) []byte {
	return d.field(b, 4, name, fmt.Sprintf("%08x", binary.LittleEndian.Uint32(b)))
}

// record dumps the record at the start of b and returns what is behind it.
func (d *dump) record(b []byte, batched bool) []byte {
	r, _, err := Split(b)
	if err != nil {
		panic(err)
	}
	b = d.uint32(b, "size")
	b = d.uint32(b, "topic")
	if batched {
		b = d.uint64(b, "number", "")
		note := ": none"
		if seq, ok := r.Expected(); ok {
			note = fmt.Sprintf(": last seq must be %d", seq)
		}
		b = d.uint64(b, "expected", note)
		b = d.uint64(b, "left", "")
	} else {
		b = d.uint64(b, "seq", "")
		b = d.uint64(b, "prev", "")
		b = d.uint64(b, "time", "")
	}
	b = d.sum(b, "body sum")
	b = d.sum(b, "head sum")
	headers := len(r.Headers())
	b = d.field(b, uvarintLen(uint64(headers)), "headers", fmt.Sprint(headers, " bytes"))
	r.EachHeader(func(key string, value []byte) bool {
		b = d.field(b, uvarintLen(uint64(len(key))), "length", len(key))
		b = d.field(b, len(key), "key", key)
		b = d.field(b, uvarintLen(uint64(len(value))), "length", len(value))
		b = d.field(b, len(value), "value", string(value))
		return true
	})
	b = d.field(b, len(r.Payload()), "payload", string(r.Payload()))
	if pad := Stride(len(r)) - len(r); pad > 0 {
		b = d.field(b, pad, "padding", "")
	}
	return b
}

func (d *dump) batch(b []byte) {
	v, err := ParseBatch(b)
	if err != nil {
		panic(err)
	}
	b = d.field(b, 4, "magic", string(b[:4]))
	b = d.sum(b, "sum")
	b = d.uint32(b, "size")
	b = d.uint32(b, "count")
	b = d.field(b, 16, "producer", strings.TrimRight(string(v.Producer[:]), "\x00"))
	b = d.uint32(b, "topics")
	b = d.uint32(b, "table")
	for _, name := range v.Topics {
		b = d.field(b, 2, "length", len(name))
		b = d.field(b, len(name), "topic", string(name))
	}
	if pad := len(b) - len(v.Records); pad > 0 {
		b = d.field(b, pad, "padding", "")
	}
	for len(b) > 0 {
		b = d.record(b, true)
	}
}
