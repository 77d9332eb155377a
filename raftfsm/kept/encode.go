package kept

import (
	"encoding/binary"
	"errors"
	"fmt"

	"chorale/message/fields"
	"chorale/retention"
)

// The body of a rules command:
//
//	0   8  known     number of the set that is replaced
//	8   4  rules     at most 1,000
//	12  4  zero
//	16     a rule: age 8, bytes 8, length of the filter 2, filter
//
// and of a floors command:
//
//	0   8  rules     number of the set
//	8   8  time      the leader's clock
//	16  4  floors    1 to 1,000
//	20  4  zero
//	24     a floor: its rule 4, zero 4, seq 8
//
// A state is number 8, rules 4, floors 4, the rules, and the floors: seq 8, length of the
// filter 2, filter.
const (
	changeHeadBytes = 16
	riseHeadBytes   = 24
	riseBytes       = 16
	stateHeadBytes  = 16
	// MaxBytes bounds what Encode makes of a State.
	MaxBytes = stateHeadBytes + retention.MaxRules*(18+maxFilter) + retention.MaxFloors*(10+maxFilter)
	// maxFilter is a name and "/**".
	maxFilter = 1024 + 3
)

// errBytes marks what no node wrote.
var errBytes = errors.New("bad bytes")

// Append appends the bytes of the command.
func (c Change) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.Known)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Rules)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	return appendRules(b, c.Rules)
}

func appendRules(b []byte, list []retention.Rule) []byte {
	for _, r := range list {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Age))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Bytes))
		b = appendText(b, r.Filter)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

// DecodeChange is the inverse of Change.Append. Whether the rules are good is Replace's to say.
func DecodeChange(b []byte) (c Change, err error) {
	d := decode(b)
	c.Known = d.Uint64()
	n, zero := d.Uint32(), d.Uint32()
	c.Rules = d.rules(n)
	return c, d.end("rules command", zero)
}

// Append appends the bytes of the command.
func (x Rise) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, x.Rules)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.Time))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(x.Floors)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, f := range x.Floors {
		b = binary.LittleEndian.AppendUint32(b, f.Rule)
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, f.Seq)
	}
	return b
}

// DecodeRise is the inverse of Rise.Append.
func DecodeRise(b []byte) (x Rise, err error) {
	d := decode(b)
	x.Rules, x.Time = d.Uint64(), int64(d.Uint64())
	n, zero := d.Uint32(), d.Uint32()
	if n > retention.MaxRules || n == 0 {
		return x, fmt.Errorf("%w: a floors command with %d floors: 1 to %d are allowed", errBytes, n, retention.MaxRules)
	}
	for ; n > 0 && !d.Short; n-- {
		f := RuleFloor{Rule: d.Uint32()}
		zero |= d.Uint32()
		f.Seq = d.Uint64()
		x.Floors = append(x.Floors, f)
	}
	return x, d.end("floors command", zero)
}

// Encode makes the bytes of a state.
func (s State) Encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.Rules.Number)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Rules.List)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Floors.List())))
	b = appendRules(b, s.Rules.List)
	return AppendFloors(b, s.Floors.List())
}

// AppendFloors appends floors as a State has them.
func AppendFloors(b []byte, list []retention.Floor) []byte {
	for _, f := range list {
		b = appendText(binary.LittleEndian.AppendUint64(b, f.Seq), f.Filter)
	}
	return b
}

// DecodeFloors is the inverse of AppendFloors, of a stream with messages up to seq end.
func DecodeFloors(b []byte, end uint64) (*retention.Floors, error) {
	d := decode(b)
	var list []retention.Floor
	for len(d.Rest) > 0 && !d.Short {
		list = append(list, retention.Floor{Seq: d.Uint64(), Filter: d.Text()})
	}
	return checkFloors(list, end, d.end("floors", 0))
}

// checkFloors makes floors of a list, if each of it says something.
func checkFloors(list []retention.Floor, end uint64, err error) (*retention.Floors, error) {
	if err = errors.Join(err, retention.Check(list)); err != nil {
		return nil, err
	}
	f := retention.NewFloors(list)
	if len(f.List()) != len(list) || f.Highest() > end+1 {
		return nil, fmt.Errorf("%w: %d floors up to %d, of which %d say something; the stream ends at %d", errBytes, len(list), f.Highest(), len(f.List()), end)
	}
	return f, nil
}

// Decode is the inverse of Encode, of a stream with messages up to seq end.
func Decode(b []byte, end uint64) (s State, err error) {
	d := decode(b)
	s.Rules.Number = d.Uint64()
	rules, floors := d.Uint32(), d.Uint32()
	s.Rules.List = d.rules(rules)
	if floors > retention.MaxFloors {
		d.Short = true
	}
	var list []retention.Floor
	for ; floors > 0 && !d.Short; floors-- {
		list = append(list, retention.Floor{Seq: d.Uint64(), Filter: d.Text()})
	}
	if s.Floors, err = checkFloors(list, end, errors.Join(d.end("limits of subtrees", 0), s.Rules.Check())); err != nil {
		return State{}, err
	}
	if s.IsZero() {
		return State{}, fmt.Errorf("%w: limits of subtrees where there never was a rule", errBytes)
	}
	return s, nil
}

// decoder takes fields off bytes.
type decoder struct{ fields.Reader }

func decode(b []byte) decoder { return decoder{fields.Reader{Rest: b}} }

func (d *decoder) rules(n uint32) (list []retention.Rule) {
	if n > retention.MaxRules {
		d.Short = true
	}
	for ; n > 0 && !d.Short; n-- {
		list = append(list, retention.Rule{Age: int64(d.Uint64()), Bytes: int64(d.Uint64()), Filter: d.Text()})
	}
	return list
}

// end reports bytes that are missing, too many or not zero.
func (d *decoder) end(what string, zero uint32) error {
	if !d.Done() || zero != 0 {
		return fmt.Errorf("%w: %s of another length, or with reserved bytes that are not zero", errBytes, what)
	}
	return nil
}
