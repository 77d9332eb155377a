package mend

const (
	// tries bounds the combinations of a region that are tried with one width: all that
	// there are of 14 places in two copies.
	tries = 1 << 14
	// work bounds what they cost, in bytes that are summed; choosing a place costs about as
	// much as placeWork of them.
	work, placeWork = 1 << 30, 64
)

// widths are how close two places must be, in bytes, to count as one; 0 is never.
var widths = []int{256, 16, 0}

// combine makes size bytes that are sound from copies none of which is; nil if that is not
// found. Copies may be cut.
func combine(copies [][]byte, size int, sound func([]byte) bool) []byte {
	b := majority(copies, size)
	if b == nil || sound(b) {
		return b
	}
	before := 0
	for _, width := range widths {
		places := differences(copies, size, width)
		if len(places) == before {
			continue // the same as with the last width
		}
		before = len(places)
		s := search{copies: copies, common: b, places: places, b: append([]byte(nil), b...), sound: sound, left: min(tries, work/(size+placeWork*len(places)))}
		if s.all() {
			return s.b
		}
	}
	return nil
}

// majority is what most copies say, byte by byte, the first of them where several are as
// many; nil if some byte is in none.
func majority(copies [][]byte, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		most := 0
		for _, c := range copies {
			if i >= len(c) {
				continue
			}
			n := 0
			for _, d := range copies {
				if i < len(d) && d[i] == c[i] {
					n++
				}
			}
			if n > most {
				b[i], most = c[i], n
			}
		}
		if most == 0 {
			return nil
		}
	}
	return b
}

// place is a stretch of bytes in which the same copies differ from each other.
type place struct {
	from, to int
	pattern  pattern
}

// pattern says of each copy which is the first that has the same byte, from 1; 0 is one that
// is cut before.
type pattern [maxCopies]uint8

func patternAt(copies [][]byte, i int) (p pattern, differ bool) {
	first := 0
	for n, c := range copies {
		if i >= len(c) {
			continue
		}
		for m, d := range copies[:n+1] {
			if i < len(d) && d[i] == c[i] {
				p[n] = uint8(m + 1)
				break
			}
		}
		if first == 0 {
			first = n + 1
		}
		differ = differ || int(p[n]) != first
	}
	return p, differ
}

// differences are the places where copies differ. Neighbours of one pattern are one, if
// there are fewer than width bytes between them.
func differences(copies [][]byte, size, width int) (out []place) {
	for i := range size {
		p, differ := patternAt(copies, i)
		switch n := len(out); {
		case !differ:
		case n > 0 && out[n-1].pattern == p && i-out[n-1].to < width:
			out[n-1].to = i + 1
		default:
			out = append(out, place{i, i + 1, p})
		}
	}
	return out
}

// search tries which copy is right at which place.
type search struct {
	copies [][]byte
	common []byte // what most of them say
	places []place
	b      []byte // what is tried
	sound  func([]byte) bool
	left   int // tries
}

// all tries everything, that with the fewest changes from copy to copy first.
func (s *search) all() bool {
	for changes := range len(s.places) {
		for c := range s.copies {
			if s.from(0, c, changes) {
				return true
			}
		}
		if s.left <= 0 {
			return false
		}
	}
	return false
}

// from takes copy c from a place on, and changes so many times behind it.
func (s *search) from(at, c, changes int) bool {
	if changes == 0 {
		for ; at < len(s.places); at++ {
			s.take(at, c)
		}
		s.left--
		return s.left >= 0 && s.sound(s.b)
	}
	for ; at < len(s.places)-changes && s.left > 0; at++ {
		s.take(at, c)
		for other := range s.copies {
			if other != c && s.from(at+1, other, changes-1) {
				return true
			}
		}
	}
	return false
}

// take has copy c right at a place; where it is cut, what most of the others say.
func (s *search) take(at, c int) {
	p, from := s.places[at], s.copies[c]
	if p.pattern[c] == 0 {
		from = s.common
	}
	copy(s.b[p.from:p.to], from[p.from:p.to])
}
