package settings

import (
	"errors"
	"strings"
	"testing"
)

func TestParseConfig(t *testing.T) {
	allowed := []string{"addr", "data-dir", "tip-size"}
	got, err := parseConfig("c.conf", strings.NewReader("# a node\n\naddr = a:1,b:2\n data-dir=\"/var/lib/a b\"  \n"), allowed)
	if err != nil {
		t.Fatal(err)
	}
	if got["addr"].value != "a:1,b:2" || got["data-dir"].value != "/var/lib/a b" || len(got) != 2 {
		t.Errorf("got %v", got)
	}
	for in, want := range map[string]string{
		"addr\n":                        `c.conf:1: "addr": want a line "key = value"`,
		"\ntip-siz = 1GiB\n":            `c.conf:2: unknown key "tip-siz" with value "1GiB"; did you mean tip-size?`,
		"colour = red\n":                `c.conf:1: unknown key "colour" with value "red"; allowed are addr, data-dir, tip-size`,
		"addr = a:1\n#\naddr = a:2\n":   `c.conf:3: key "addr" is set already, by c.conf:1: addr`,
		"addr = " + long(70_000) + "\n": `c.conf: bufio.Scanner: token too long`,
	} {
		_, err := parseConfig("c.conf", strings.NewReader(in), allowed)
		var usage *UsageError
		if err == nil || err.Error() != want || !errors.As(err, &usage) {
			t.Errorf("%.20q: got %v, want %s", in, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestNearest(t *testing.T) {
	names := []string{"from", "filter", "until-tip"}
	for word, want := range map[string]string{"form": "from", "fro": "from", "untiltip": "until-tip", "payload": "", "unt": "until-tip", "filters": "filter", "tip": "", "x": "", "": ""} {
		if got := nearest(word, names); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}
