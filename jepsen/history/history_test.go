package history

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func sample() *History {
	var r Recorder
	two := uint64(2)
	u := r.Unit(Unit{Client: 1, Number: 1, Messages: []Draft{{Topic: "a/b", Body: []byte("x"), Expected: &two}}})
	a := r.Invoke(u, "n1")
	r.Fault(5, "crash n1")
	r.Answer(a, Attempt{Result: Stored, Seq: 7})
	r.Invoke(u, "n2")
	r.Read(Read{Reader: 1, Node: "n2", Filters: []string{"**"}, To: 7, Messages: []Message{{Seq: 7, Time: 3, Topic: "a/b", Body: []byte("x")}}})
	return r.History()
}

func TestFileHoldsTheWholeHistory(t *testing.T) {
	h := sample()
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(h, got) {
		t.Fatalf("wrote %+v, read %+v", h, got)
	}
}

func TestClockOrdersInvokesAndReturns(t *testing.T) {
	h := sample()
	a, f, b := h.Attempts[0], h.Faults[0], h.Attempts[1]
	if !(a.Invoke < f.At && f.At < a.Return && a.Return < b.Invoke) {
		t.Fatalf("moments out of order: %+v %+v %+v", a, f, b)
	}
	if b.Result != Unknown || b.Return != 0 {
		t.Fatalf("an attempt without answer reads %+v", b)
	}
}

func TestParseNamesTheBadLine(t *testing.T) {
	for _, in := range []string{"{}", "{\"unit\":{}}\n{", "nonsense"} {
		if _, err := Parse(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), "line") {
			t.Errorf("%q: error %v", in, err)
		}
	}
}
