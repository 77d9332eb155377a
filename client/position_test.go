package client

import (
	"errors"
	"reflect"
	"testing"
)

func TestPositionTextIsGoldenAndReadsBack(t *testing.T) {
	p := Position{Cluster: "0123abcd", Seq: 18_446_744_073_709_551_615, Filters: []string{"a/*/c", "app/ö & ü/**"}}
	const want = "chorale1:cluster=0123abcd&filter=a%2F%2A%2Fc&filter=app%2F%C3%B6+%26+%C3%BC%2F%2A%2A&seq=18446744073709551615&sum=e0eab81d"
	if got := p.String(); got != want {
		t.Fatalf("%s\nwant %s", got, want)
	}
	var back Position
	if err := back.UnmarshalText([]byte(want)); err != nil || !reflect.DeepEqual(back, p) {
		t.Fatalf("%+v, %v", back, err)
	}
	for i := range len(want) {
		if err := back.UnmarshalText([]byte(want[:i])); !errors.Is(err, ErrInvalid) {
			t.Fatalf("cut to %q: %v", want[:i], err)
		}
		changed := []byte(want)
		changed[i] ^= 1
		if err := back.UnmarshalText(changed); !errors.Is(err, ErrInvalid) {
			t.Fatalf("changed to %q: %v", changed, err)
		}
	}
}

// FuzzPosition: what is accepted survives the way to text and back.
func FuzzPosition(f *testing.F) {
	f.Add("chorale1:cluster=c&filter=%2A%2A&seq=1&sum=00000000")
	f.Add(Position{Cluster: "c", Filters: []string{"**"}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		var p, back Position
		if err := p.UnmarshalText([]byte(text)); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if err := back.UnmarshalText([]byte(p.String())); err != nil || !reflect.DeepEqual(p, back) {
			t.Fatalf("%+v became %+v, %v", p, back, err)
		}
	})
}
