package client

import (
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"

	"chorale/topic"
)

// Position is a place in a stream where a subscription can go on: it has everything
// that its filters match up to Seq, and nothing behind it. It holds for the whole
// cluster and for ever; nodes keep nothing of it.
type Position struct {
	Cluster string
	Seq     uint64
	// Filters is the set, sorted and without those that others cover.
	Filters []string
}

// positionPrefix is the version of the text form.
const positionPrefix = "chorale1:"

// MarshalText gives a position as one line without spaces, for a file or a shell:
// a version, fields as in the query of a URL, and a checksum over both.
func (p Position) MarshalText() ([]byte, error) {
	fields := url.Values{"cluster": {p.Cluster}, "filter": p.Filters, "seq": {strconv.FormatUint(p.Seq, 10)}}
	text := positionPrefix + fields.Encode()
	return []byte(text + "&sum=" + positionSum(text)), nil
}

// String is the text form.
func (p Position) String() string {
	b, err := p.MarshalText()
	if err != nil {
		panic(err) // it never returns one
	}
	return string(b)
}

// UnmarshalText reads what MarshalText wrote; a changed or cut text is an error.
func (p *Position) UnmarshalText(b []byte) error {
	rest, ok := strings.CutPrefix(string(b), positionPrefix)
	if !ok {
		return fmt.Errorf("%w: a resume position begins with %q", ErrInvalid, positionPrefix)
	}
	head, sum, ok := strings.Cut(rest, "&sum=")
	if !ok || sum != positionSum(positionPrefix+head) {
		return fmt.Errorf("%w: the resume position is cut or was changed", ErrInvalid)
	}
	fields, err := url.ParseQuery(head)
	if err != nil {
		return fmt.Errorf("%w: resume position: %w", ErrInvalid, err)
	}
	seq, err := strconv.ParseUint(fields.Get("seq"), 10, 64)
	if err != nil || fields.Get("cluster") == "" {
		return fmt.Errorf("%w: the resume position lacks its cluster or its seq", ErrInvalid)
	}
	filters, err := topic.ParseFilters(fields["filter"]...)
	if err != nil {
		return fmt.Errorf("%w: resume position: %w", ErrInvalid, err)
	}
	*p = Position{Cluster: fields.Get("cluster"), Seq: seq, Filters: filters.Canonical()}
	return nil
}

func positionSum(text string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}
