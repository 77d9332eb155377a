package show

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"chorale/client"
)

func TestOutput(t *testing.T) {
	at := time.Date(2026, 1, 31, 9, 0, 0, 123456789, time.UTC)
	message := func(payload string, headers ...client.Header) client.Delivery {
		return client.Delivery{Seq: 12, Prev: 7, Time: at, Topic: "app/ü <b>", Headers: headers, Payload: []byte(payload)}
	}
	const head = "12\t2026-01-31T09:00:00.123456Z\tapp/ü <b>\t"
	const jsonHead = `{"seq":12,"prev":7,"time":"2026-01-31T09:00:00.123456789Z","topic":"app/ü <b>",`
	for _, c := range []struct {
		format string
		in     client.Delivery
		want   string
	}{
		{Text, message("order 1"), head + "order 1"},
		{Text, message(""), head},
		{Text, message(`{"id":1}`), head + `{"id":1}`},
		{Text, message("two\nlines"), head + `"two\nlines"`},
		{Text, message("\xff\x00"), head + `"\xff\x00"`},
		{Text, message("\x1b[31mred"), head + `"\x1b[31mred"`},
		{Text, message("\u009b31mred"), head + `"\u009b31mred"`},
		{Text, message("a\tü"), head + "a\tü"},
		{Text, message(`"quoted`), head + `"\"quoted"`},
		{Raw, message("two\nlines\x00"), "two\nlines\x00"},
		{JSON, message("a<b\n"), jsonHead + `"payload":"a<b\n"}`},
		{JSON, message(""), jsonHead + `"payload":""}`},
		{JSON, message("\xff"), jsonHead + `"payload_base64":"/w=="}`},
		{JSON, message("x", client.Header{Key: "k", Value: []byte("v")}, client.Header{Key: "b", Value: []byte{0xff}}),
			jsonHead + `"headers":[{"key":"k","value":"v"},{"key":"b","value_base64":"/w=="}],"payload":"x"}`},
		{JSON, message("x", client.Header{Key: "\xff"}), jsonHead + `"headers":[{"key_base64":"/w==","value":""}],"payload":"x"}`},
	} {
		var out strings.Builder
		w := bufio.NewWriter(&out)
		if err := Printer(c.format)(w, c.in); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if got := out.String(); got != c.want+"\n" {
			t.Errorf("%s: got  %s\nwant %s", c.format, got, c.want)
		}
	}
}
