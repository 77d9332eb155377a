package recovery

import (
	"fmt"

	"chorale/message"
	"chorale/retention"
	"chorale/segments"
	"chorale/topic"
)

// sieve leaves out what has gone. For one goroutine.
type sieve struct {
	topics *topic.Table
	floors *retention.Floors
	ids    map[uint32]uint64 // floors of topics that were met
}

// take goes over to other floors.
func (s *sieve) take(f *retention.Floors) {
	if f != s.floors {
		s.floors, s.ids = f, map[uint32]uint64{}
	}
}

// of is the floor of a topic.
func (s *sieve) of(id uint32) uint64 {
	floor, known := s.ids[id]
	if !known {
		floor = s.floors.Of(s.topics.Name(id))
		s.ids[id] = floor
	}
	return floor
}

// has reports whether a message has not gone.
func (s *sieve) has(r message.Record) bool {
	return r.Seq() >= s.floors.Highest() || r.Seq() >= s.of(r.Topic())
}

// sift removes what has gone from the padded records dst[start:], which lie behind seq
// after, and counts what is left.
func (s *sieve) sift(dst []byte, start, count int, after uint64) ([]byte, int) {
	if s.floors.Highest() <= after+1 {
		return dst, count
	}
	to := start
	count = 0
	for from := start; from < len(dst); {
		size := message.Record(dst[from:]).Size()
		stride := message.Stride(size)
		if s.has(message.Record(dst[from : from+size])) {
			copy(dst[to:], dst[from:from+stride])
			to += stride
			count++
		}
		from += stride
	}
	return dst[:to], count
}

// passed notes the floors that may have left something out behind seq after, for News.
func (c *Cursor) passed(after uint64) {
	if c.sieve.floors.Highest() <= after+1 {
		return
	}
	for _, f := range c.sieve.floors.List() {
		if f.Seq > after+1 && c.told[f.Filter] < f.Seq {
			if c.told == nil {
				c.told = map[string]uint64{}
			}
			c.told[f.Filter] = f.Seq
			c.news = append(c.news, f)
		}
	}
}

// News are the floors that explain what was left out since the last call, as far as they were
// not among the news before. Who is told all of them, with what was delivered, can prove that
// nothing else is missing.
func (c *Cursor) News() []retention.Floor {
	news := c.news
	c.news = nil
	return news
}

// OvertakenError is the segments.ErrExpired of a cursor behind whose position all that it
// wants has gone, up to another one.
type OvertakenError struct{ Position, Oldest uint64 }

// Error names both.
func (e *OvertakenError) Error() string {
	return fmt.Sprintf("%v: position %d, the oldest message that the filters want is %d", segments.ErrExpired, e.Position, e.Oldest)
}

// Unwrap is segments.ErrExpired.
func (e *OvertakenError) Unwrap() error { return segments.ErrExpired }

// overtaken reports an OvertakenError.
func (c *Cursor) overtaken() error {
	f := c.source.floors()
	if f.Highest() <= c.pos+1 {
		return nil
	}
	if c.asked != f {
		c.asked, c.oldest = f, f.Oldest(c.filters.Canonical())
	}
	if c.oldest > c.pos+1 {
		return &OvertakenError{c.pos + 1, c.oldest}
	}
	return nil
}

// floors are those of now.
func (s Source) floors() *retention.Floors {
	if s.Floors == nil {
		return nil
	}
	return s.Floors()
}

// kept counts what is wanted of the tip behind seq after and below floors, and has not gone:
// it reads it. The error is that of the tip.
func (s *sieve) kept(from Source, sel *topic.Selection, after, until uint64) (messages, bytes uint64, err error) {
	r := from.Tip.NewReader(sel, after)
	var b []byte
	for at := after; at < until; {
		var p message.Progress
		if b, p, err = r.Read(b[:0], explainPiece); err != nil {
			return 0, 0, err
		}
		at = p.Scanned
		for rest := b; len(rest) > 0; {
			one, tail, err := message.Split(rest)
			if err != nil {
				return 0, 0, err
			}
			if one.Seq() <= until && s.has(one) {
				messages++
				bytes += uint64(message.Stride(len(one)))
			}
			rest = tail
		}
	}
	return messages, bytes, nil
}

// explainPiece is how many bytes of the tip are looked at by one read.
const explainPiece = 1 << 20
