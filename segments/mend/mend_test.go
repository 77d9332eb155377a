package mend

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chorale/message"
	"chorale/segments/arena"
	"chorale/segments/format"
	"chorale/segments/manifest"
	"chorale/topic"

	"pgregory.net/rapid"
)

// sample is a data file.
type sample struct {
	meta    manifest.FileMeta
	bytes   []byte
	regions []format.Region
}

// samples are a segment, a store with chapters and one without, of so many messages.
func samples(t testing.TB, messages int) []sample {
	t.Helper()
	topics, rng := topic.NewTable(), rand.New(rand.NewPCG(3, uint64(messages)))
	payload := make([]byte, 600)
	a := arena.New(1, 1<<20)
	last := map[uint32]uint64{}
	var all []message.Record
	for i := range messages {
		id, _ := topics.Intern(fmt.Appendf(nil, "a/b%d/c%d", rng.IntN(3), rng.IntN(5)))
		for j := range payload {
			payload[j] = "some text, and numbers 0123456789"[rng.IntN(33)]
		}
		r := message.NewRecord(message.Draft{Payload: payload[:rng.IntN(len(payload))]}, id, uint64(i+1), last[id], int64(1000+i))
		last[id] = r.Seq()
		a.Append(topics.Partition(id), r)
		all = append(all, r)
	}
	var segment bytes.Buffer
	x, err := arena.NewLayout(a, topics).Write(&segment)
	if err != nil {
		t.Fatal(err)
	}
	return []sample{newSample(t, x, segment.Bytes()), store(t, format.ChapterBytes, topics, all), store(t, 0, topics, all)}
}

// store is one with all records, which are less than a chapter.
func store(t testing.TB, chapter uint32, topics *topic.Table, all []message.Record) sample {
	t.Helper()
	var blocks [][]byte
	w := format.NewStoreWriter(format.StoreOptions{
		First: 1, Last: uint64(len(all)), FirstTime: all[0].Time(), LastTime: all[len(all)-1].Time(), Chapter: chapter, Name: topics.Name, Packer: format.NewPacker(),
		Keep: func(stored []byte) error {
			blocks = append(blocks, bytes.Clone(stored))
			return nil
		},
	})
	var errs []error
	for _, r := range all {
		errs = append(errs, w.Add(r))
	}
	var out bytes.Buffer
	errs = append(errs, w.End())
	sum, _, err := w.Write(&out, func(write func([]byte)) error {
		for _, b := range blocks {
			write(b)
		}
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	return newSample(t, sum, out.Bytes())
}

func newSample(t testing.TB, sum format.Summary, b []byte) sample {
	t.Helper()
	f, err := format.Open(bytes.NewReader(b), int64(len(b)), "x")
	if err != nil {
		t.Fatal(err)
	}
	regions, err := f.Regions(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return sample{manifest.Describe(sum), b, regions}
}

// mend puts the file together from copies.
func (s sample) mend(copies ...[]byte) ([]byte, error) {
	var readers []io.ReaderAt
	for _, c := range copies {
		readers = append(readers, bytes.NewReader(c))
	}
	return s.from(readers...)
}

func (s sample) from(copies ...io.ReaderAt) ([]byte, error) {
	write, err := File(s.meta, copies)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = write(&out)
	return out.Bytes(), err
}

// flipped is a copy with a bit of each of some bytes flipped.
func (s sample) flipped(at ...int64) []byte {
	b := bytes.Clone(s.bytes)
	for _, i := range at {
		b[i] ^= 1 << (i % 8)
	}
	return b
}

var oneBlock = regexp.MustCompile(`^block \d+$`)

// someRegions are all but the many blocks in the middle, which are alike.
func (s sample) someRegions() []format.Region {
	return slices.DeleteFunc(slices.Clone(s.regions), func(x format.Region) bool {
		return oneBlock.MatchString(x.Name) && x.Name != "block 0" && x.Name != "block 2"
	})
}

// TestEachRegion: a region that is damaged in every copy, at different places, is as it was
// again; at the same place it is lost, and the error names it.
func TestEachRegion(t *testing.T) {
	for _, s := range samples(t, 1000) {
		for _, x := range s.someRegions() {
			first, middle, last := x.Off, x.Off+x.Bytes/2, x.Off+x.Bytes-1
			for what, copies := range map[string][][]byte{
				"three flips":                       {s.flipped(first), s.flipped(middle), s.flipped(last)},
				"two flips":                         {s.flipped(middle), s.flipped(last)},
				"neighbours":                        {s.flipped(middle), s.flipped(middle + 1)},
				"two flips each":                    {s.flipped(first, last), s.flipped(first+1, middle)},
				"cut behind the middle, flips":      {s.bytes[:middle+1], s.flipped(first), s.flipped(last)},
				"cut, and flipped before the cut":   {s.flipped(first)[:middle], s.flipped(first + 1)},
				"nothing, and two flips":            {nil, s.flipped(first), s.flipped(last)},
				"the same place in two, a third is": {s.flipped(first), s.flipped(first), s.flipped(last)},
			} {
				if got, err := s.mend(copies...); err != nil || !bytes.Equal(got, s.bytes) {
					t.Errorf("%s of a %s, %s: %d bytes, %v", x.Name, s.meta.Kind, what, len(got), err)
				}
			}
			_, err := s.mend(s.flipped(middle, first), s.flipped(middle), s.flipped(middle, last))
			known := x.Name == "header" // from the manifest
			if (err == nil) != known || err != nil && (!errors.Is(err, ErrLost) || !strings.Contains(err.Error(), x.Name+", bytes ")) {
				t.Errorf("%s of a %s, the same bit in all copies: %v", x.Name, s.meta.Kind, err)
			}
		}
	}
}

// counting counts what is asked of a copy.
type counting struct {
	io.ReaderAt
	bytes int64
}

func (c *counting) ReadAt(b []byte, off int64) (int, error) {
	c.bytes += int64(len(b))
	return c.ReaderAt.ReadAt(b, off)
}

// TestAsksLittle: another copy is asked for what the first has not got, and no more.
func TestAsksLittle(t *testing.T) {
	for _, s := range samples(t, 1000) {
		bad := s.regions[2]
		mine, other := bytes.NewReader(s.flipped(bad.Off)), &counting{ReaderAt: bytes.NewReader(s.flipped(0))}
		got, err := s.from(mine, other)
		if err != nil || !bytes.Equal(got, s.bytes) || other.bytes != bad.Bytes {
			t.Errorf("%s: %d bytes, %v; %d were asked of the other copy, for a block of %d", s.meta.Kind, len(got), err, other.bytes, bad.Bytes)
		}
	}
}

// failing is a copy on a disk with a bad sector.
type failing struct {
	io.ReaderAt
	at int64
}

func (f failing) ReadAt(b []byte, off int64) (int, error) {
	if off <= f.at && f.at < off+int64(len(b)) {
		n, _ := f.ReaderAt.ReadAt(b[:f.at-off], off)
		return n, errors.New("bad sector")
	}
	return f.ReaderAt.ReadAt(b, off)
}

// TestBadSectors: what cannot be read is not there, and the rest of the copy is.
func TestBadSectors(t *testing.T) {
	for _, s := range samples(t, 1000) {
		x, y := s.regions[1], s.regions[3]
		got, err := s.from(failing{bytes.NewReader(s.bytes), x.Off + 100}, failing{bytes.NewReader(s.bytes), y.Off})
		if err != nil || !bytes.Equal(got, s.bytes) {
			t.Errorf("%s: %d bytes, %v", s.meta.Kind, len(got), err)
		}
	}
}

// TestRandomDamage: whatever happens to the copies, what is made of them is the file, or it
// is said that they do not make it up. That may not be said if each region is sound
// in one of them, or most of them are right about each of its bytes.
func TestRandomDamage(t *testing.T) {
	all := append(samples(t, 300), samples(t, 5)...)
	made, lost := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := all[rapid.IntRange(0, len(all)-1).Draw(t, "file")]
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "damage"), 1))
		copies := make([][]byte, 1+rng.IntN(4))
		for i := range copies {
			copies[i] = damaged(rng, s.bytes)
		}
		got, err := s.mend(copies...)
		switch {
		case err == nil && sha256.Sum256(got) == s.meta.Hash:
			made++
		case err == nil: // a checksum of 32 bits held by chance; the hash tells
		case !errors.Is(err, ErrLost):
			t.Fatal(err)
		case s.must(copies):
			t.Fatalf("%s of %d bytes: %v", s.meta.Kind, len(s.bytes), err)
		default:
			lost++
		}
	})
	if made == 0 || lost == 0 {
		t.Errorf("%d made, %d lost: the damage is tame", made, lost)
	}
}

// damaged is a copy that something happened to.
func damaged(rng *rand.Rand, whole []byte) []byte {
	b := bytes.Clone(whole)
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(b) + 1)
		end := min(at+512<<rng.IntN(4), len(b))
		switch rng.IntN(5) {
		case 0:
			b = b[:at]
		case 1:
			clear(b[at:end])
		case 2:
			for i := at; i < end; i++ {
				b[i] = byte(rng.Uint32())
			}
		default:
			if at < len(b) {
				b[at] ^= 1 << rng.IntN(8)
			}
		}
		if len(b) == 0 {
			break
		}
	}
	return b
}

// must reports whether the copies make up the file in the simplest of ways.
func (s sample) must(copies [][]byte) bool {
	for _, x := range s.regions[1:] {
		want, sound := s.bytes[x.Off:x.Off+x.Bytes], false
		for _, c := range copies {
			sound = sound || int64(len(c)) >= x.Off+x.Bytes && bytes.Equal(c[x.Off:x.Off+x.Bytes], want)
		}
		if !sound && !s.most(x, copies) {
			return false
		}
	}
	return true
}

// most reports whether more copies are right than wrong about each byte of a region.
func (s sample) most(x format.Region, copies [][]byte) bool {
	for i := x.Off; i < x.Off+x.Bytes; i++ {
		right, wrong := 0, 0
		for _, c := range copies {
			switch {
			case i >= int64(len(c)):
			case c[i] == s.bytes[i]:
				right++
			default:
				wrong++
			}
		}
		if right <= wrong {
			return false
		}
	}
	return true
}
