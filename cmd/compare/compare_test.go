package compare

import (
	"errors"
	"strings"
	"testing"
	"time"

	"chorale/client"
)

// TestDiffer: whatever of a message is not the same is named.
func TestDiffer(t *testing.T) {
	m := client.Delivery{
		Seq: 7, Prev: 3, Time: time.Unix(0, 5), Topic: "a/b", Payload: []byte("x"),
		Headers: []client.Header{{Key: "k", Value: []byte("v")}},
	}
	if what := differ(m, m.Clone()); what != "" {
		t.Errorf("a copy: %s", what)
	}
	for want, change := range map[string]func(*client.Delivery){
		"topics":          func(d *client.Delivery) { d.Topic = "a/c" },
		"times":           func(d *client.Delivery) { d.Time = time.Unix(0, 6) },
		"messages before": func(d *client.Delivery) { d.Prev = 2 },
		"headers":         func(d *client.Delivery) { d.Headers[0].Value = []byte("w") },
		"payloads":        func(d *client.Delivery) { d.Payload = []byte("y") },
	} {
		n := m.Clone()
		change(&n)
		if what := differ(m, n); !strings.Contains(what, want) {
			t.Errorf("%s: %q", want, what)
		}
	}
}

// TestPrint: what a person and a script read.
func TestPrint(t *testing.T) {
	r := Result{First: 3, Last: 20005, Bytes: 2 << 20, Clusters: [2]string{"aa", "bb"}, Kept: [2][2]uint64{{1, 20005}, {3, 20010}}}
	names := [2]string{"one:7070", "two:7070"}
	var b strings.Builder
	if err := Print(&b, r, names, nil); err != nil {
		t.Fatal(err)
	}
	const identical = `CLUSTER  MESSAGES     ADDRESS
aa       1 to 20,005  one:7070
bb       3 to 20,010  two:7070

Messages 3 to 20,005 are identical, 2 MiB of payloads.
`
	if b.String() != identical {
		t.Errorf("identical:\n%s", b.String())
	}
	b.Reset()
	d := &Difference{17, "the times differ"}
	if err := Print(&b, r, names, d); err != nil || !strings.HasSuffix(b.String(), "\nMessages 3 to 20,005 were to be compared; message 17: the times differ.\n") {
		t.Errorf("different: %v\n%s", err, b.String())
	}
	b.Reset()
	if err := PrintJSON(&b, r, names, d); err != nil || !strings.Contains(b.String(), `"identical": false,`+"\n"+`  "difference_seq": 17,`) {
		t.Errorf("JSON: %v\n%s", err, b.String())
	}
	b.Reset()
	r.Last, r.Kept[1] = 0, [2]uint64{1, 0}
	if err := Print(&b, r, names, nil); err != nil || !strings.Contains(b.String(), "bb       none ") || !strings.Contains(b.String(), "There is no message that both have.") {
		t.Errorf("nothing: %v\n%s", err, b.String())
	}
}

// TestGiveUp: a side is told of whenever it waits, and ends the comparison when it has
// waited for longer than its reason deserves.
func TestGiveUp(t *testing.T) {
	for why, longest := range map[error]time.Duration{client.ErrMissing: forFile, client.ErrUnavailable: forNode, nil: time.Hour} {
		var told []client.Wait
		var end error
		w := Watch{Wait: func(w client.Wait) { told = append(told, w) }, stop: func(err error) { end = err }}
		tell := w.of(Side{Name: "one:7070"})
		tell(client.Wait{Node: "two:7070", Err: why, For: longest - 1})
		if len(told) != 1 || end != nil {
			t.Errorf("%v: told %v, ended with %v", why, told, end)
		}
		tell(client.Wait{Node: "two:7070", Err: why, For: longest})
		if len(told) != 2 || (end == nil) != (why == nil) || !errors.Is(end, why) {
			t.Errorf("%v: told %v, ended with %v", why, told, end)
		}
		if end != nil && !strings.Contains(end.Error(), "nothing came for "+longest.String()+" from the node at two:7070: ") {
			t.Error(end)
		}
	}
}
