package kept

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"chorale/retention"
)

// FuzzDecode: whatever is decoded is encoded to the same bytes.
func FuzzDecode(f *testing.F) {
	rules := []retention.Rule{{Filter: "a", Age: 1}, {Filter: "a/b/**", Bytes: 1 << 40}}
	f.Add(Change{7, rules}.Append(nil))
	f.Add(Rise{7, 8, []RuleFloor{{0, 9}, {1, 10}}}.Append(nil))
	f.Add(State{retention.Rules{Number: 3, List: rules}, retention.NewFloors([]retention.Floor{{Filter: "a", Seq: 4}})}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeChange(b); err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Errorf("%+v", c)
		}
		if x, err := DecodeRise(b); err == nil && !bytes.Equal(x.Append(nil), b) {
			t.Errorf("%+v", x)
		}
		if s, err := Decode(b, 1000); err == nil && !bytes.Equal(s.Encode(), b) {
			t.Errorf("%+v", s)
		}
	})
}

// TestMaxFloors: rules whose floors could not be kept with those of earlier ones are refused.
func TestMaxFloors(t *testing.T) {
	var floors []retention.Floor
	for i := range retention.MaxFloors - 1 {
		floors = append(floors, retention.Floor{Filter: fmt.Sprint("t", i), Seq: 2})
	}
	s := State{Floors: retention.NewFloors(floors)}
	s, err := s.Replace(Change{0, []retention.Rule{{Filter: "t7", Age: 1}, {Filter: "u", Age: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replace(Change{1, []retention.Rule{{Filter: "u", Age: 1}, {Filter: "v", Age: 1}}}); !errors.Is(err, retention.ErrBad) {
		t.Error(err)
	}
	again, err := Decode(s.Encode(), 10)
	if err != nil || !reflect.DeepEqual(again, s) || len(s.Encode()) > MaxBytes {
		t.Error(err)
	}
	if _, err := Decode(s.Encode(), 0); err == nil {
		t.Error("a floor behind the end was taken")
	}
}
