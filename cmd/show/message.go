package show

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"chorale/client"
)

// The formats of a message.
const (
	Text = "text"
	JSON = "json"
	Raw  = "raw"
)

// timeLayout shows a stream time to the microsecond, which is finer than the
// clocks of a cluster and still fits a line.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Printer returns what writes one message a line in the format.
func Printer(format string) func(*bufio.Writer, client.Delivery) error {
	switch format {
	case JSON:
		return printJSON
	case Raw:
		return printRaw
	default:
		return printText
	}
}

// printText writes seq, time, topic and payload, parted by tabs. A payload that
// is no printable line is quoted as in Go, so that a line stays a line.
func printText(w *bufio.Writer, d client.Delivery) error {
	b := strconv.AppendUint(w.AvailableBuffer(), d.Seq, 10)
	b = append(b, '\t')
	b = d.Time.UTC().AppendFormat(b, timeLayout)
	b = append(b, '\t')
	b = append(b, d.Topic...)
	b = append(b, '\t')
	if printable(d.Payload) {
		b = append(b, d.Payload...)
	} else {
		b = strconv.AppendQuote(b, string(d.Payload))
	}
	_, err := w.Write(append(b, '\n'))
	return err
}

// printable reports whether the payload can stand on a line of a terminal as it
// is. One with a leading quote cannot: it would be taken for a quoted one.
func printable(b []byte) bool {
	if len(b) > 0 && b[0] == '"' || !utf8.Valid(b) {
		return false
	}
	return !bytes.ContainsFunc(b, func(r rune) bool { return unicode.IsControl(r) && r != '\t' })
}

// printRaw writes the payload as it is and a newline.
func printRaw(w *bufio.Writer, d client.Delivery) error {
	if _, err := w.Write(d.Payload); err != nil {
		return err
	}
	return w.WriteByte('\n')
}

// jsonMessage is a message on stdout. A payload that is not UTF-8 stands in
// payload_base64 instead, and so do a header's key and value.
type jsonMessage struct {
	Seq           uint64       `json:"seq"`
	Prev          uint64       `json:"prev"`
	Time          string       `json:"time"`
	Topic         string       `json:"topic"`
	Headers       []jsonHeader `json:"headers,omitempty"`
	Payload       *string      `json:"payload,omitempty"`
	PayloadBase64 []byte       `json:"payload_base64,omitempty"`
}

type jsonHeader struct {
	Key         *string `json:"key,omitempty"`
	KeyBase64   []byte  `json:"key_base64,omitempty"`
	Value       *string `json:"value,omitempty"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

func printJSON(w *bufio.Writer, d client.Delivery) error {
	m := jsonMessage{Seq: d.Seq, Prev: d.Prev, Time: d.Time.UTC().Format(time.RFC3339Nano), Topic: d.Topic}
	m.Payload, m.PayloadBase64 = jsonBytes(d.Payload)
	for _, h := range d.Headers {
		var j jsonHeader
		j.Key, j.KeyBase64 = jsonBytes([]byte(h.Key))
		j.Value, j.ValueBase64 = jsonBytes(h.Value)
		m.Headers = append(m.Headers, j)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(m)
}

func jsonBytes(b []byte) (text *string, other []byte) {
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}
