// Package manifest is the list of live data files: which ranges of the stream they
// cover, how an edit changes it, and both as bytes. Pure.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"

	"chorale/segments/format"
	"chorale/topic"
)

// Hash is the SHA-256 of a whole file.
type Hash [32]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Kind tells the kinds of data files apart.
type Kind = format.Kind

// The kinds; see format.
const (
	KindSegment = format.KindSegment
	KindStore   = format.KindStore
)

// FileMeta describes one immutable data file in the manifest.
type FileMeta struct {
	Kind        Kind
	First, Last uint64 // seqs of the range, inclusive
	FirstTime   int64  // of message First; ns
	LastTime    int64
	Messages    uint64 // of a segment: all of the range; of a store: those of its topics
	Bytes       int64  // of the file
	Hash        Hash
	// Sum is the checksum of the file's trailer, which vouches for all that is
	// before it: a file can be told from another without reading it.
	Sum uint32
	// Level is how often the messages were rewritten: 0 for a segment, at least 1 for
	// a store, the same for all of a layer. The file does not say it.
	Level uint8
	// Topics is the number of topics of a store; 0 for a segment.
	Topics uint32
	// Ancestor is the deepest name that is each topic of a store or above it, "" for
	// the root; "" for a segment. Which topics they are, the file says.
	Ancestor string
}

// Name is the name of the file in its folder: it says the range of seqs and the
// first bytes of the hash, and sorts by position.
func (m FileMeta) Name() string { return m.Kind.FileName(m.First, m.Last, m.Hash.String()[:16]) }

// Edit changes the manifest: it removes files by hash and adds others. It is data
// in the Raft log. Four shapes apply: it adds files behind the end; it removes
// whole ranges from the start; it replaces neighbouring whole ranges by files
// of exactly the same seqs; or, if it trims, it removes some stores of a layer, not all.
type Edit struct {
	// Plan is the id of the plan that the edit ends, 0 for none. The manifest does
	// not look at it.
	Plan   uint64
	Remove []Hash
	Add    []FileMeta
	// Trims says that ranges have fewer messages behind the edit: some have gone. Else they
	// have as many.
	Trims bool
}

// Replace is the edit that ends a plan: the files that it names in the place of those.
func (m Manifest) Replace(plan uint64, remove []Hash, add []FileMeta) Edit {
	var before, after uint64
	for _, f := range m.Files {
		if slices.Contains(remove, f.Hash) {
			before += f.Messages
		}
	}
	for _, f := range add {
		after += f.Messages
	}
	return Edit{Plan: plan, Remove: remove, Add: add, Trims: after < before}
}

// Describe is the description of a file that was just written; topics and ancestor
// of a store are not in the summary.
func Describe(s format.Summary) FileMeta {
	h := s.File.Header
	return FileMeta{
		Kind: h.Kind, First: h.First, Last: h.Last, FirstTime: h.FirstTime, LastTime: h.LastTime,
		Messages: h.Messages, Bytes: s.Bytes, Hash: s.Hash, Sum: s.File.Trailer.Sum,
	}
}

// Header is what the file's header must say, of one with chapters of so many bytes, which
// the manifest does not know: the sum of the trailer vouches for them.
func (m FileMeta) Header(chapter uint32) format.Header {
	return format.Header{
		Kind: m.Kind, First: m.First, Last: m.Last, FirstTime: m.FirstTime, LastTime: m.LastTime, Messages: m.Messages, Chapter: chapter,
	}
}

// check reports a description that no file can have.
func (m FileMeta) check() error {
	n := m.Last - m.First + 1
	switch {
	case m.First == 0 || m.Last < m.First || n > format.MaxMessages:
		return fmt.Errorf("file of seqs %d to %d", m.First, m.Last)
	case m.LastTime < m.FirstTime:
		return fmt.Errorf("file %d to %d ends at time %d, before its start %d", m.First, m.Last, m.LastTime, m.FirstTime)
	case m.Bytes < format.HeaderBytes+format.TrailerBytes:
		return fmt.Errorf("file %d to %d of %d bytes", m.First, m.Last, m.Bytes)
	case m.Kind == KindSegment && (m.Messages != n || m.Level != 0 || m.Topics != 0 || m.Ancestor != ""):
		return fmt.Errorf("segment of seqs %d to %d with %d messages, level %d, %d topics below %q", m.First, m.Last, m.Messages, m.Level, m.Topics, m.Ancestor)
	case m.Kind == KindStore && (m.Messages > n || m.Level == 0 || m.Topics == 0 || uint64(m.Topics) > m.Messages || len(m.Ancestor) > topic.MaxBytes):
		return fmt.Errorf("store of seqs %d to %d with %d messages, level %d, %d topics below %q", m.First, m.Last, m.Messages, m.Level, m.Topics, m.Ancestor)
	case m.Kind != KindSegment && m.Kind != KindStore:
		return fmt.Errorf("file of kind %d: %d and %d are known", m.Kind, KindSegment, KindStore)
	}
	return nil
}

// Manifest lists the live files, ascending by First; those of a layer by ancestor,
// then by hash. Immutable.
type Manifest struct{ Files []FileMeta }

// Range is a part of the stream that one segment or one layer of stores covers.
type Range struct {
	First, Last uint64
	Files       []FileMeta // a part of Manifest.Files
}

// Messages is how many messages the range has: fewer than seqs, if some have gone.
func (r Range) Messages() (n uint64) {
	for _, f := range r.Files {
		n += f.Messages
	}
	return n
}

// Full reports whether no message of the range has gone.
func (r Range) Full() bool { return r.Messages() == r.Last-r.First+1 }

// Ranges lists the ranges of the manifest, oldest first: without hole or overlap.
func (m Manifest) Ranges() []Range {
	var out []Range
	for i := 0; i < len(m.Files); {
		n := m.Layer(i)
		out = append(out, Range{m.Files[i].First, m.Files[i].Last, m.Files[i : i+n : i+n]})
		i += n
	}
	return out
}

// Layer is the number of files of the range that begins at index i.
func (m Manifest) Layer(i int) int {
	n := 1
	for i+n < len(m.Files) && m.Files[i+n].First == m.Files[i].First {
		n++
	}
	return n
}

// Encode returns the versioned encoding of the manifest: an edit that adds all, and trims
// if a range is not full.
func (m Manifest) Encode() []byte { return Edit{Add: m.Files, Trims: m.trimmed()}.Encode() }

func (m Manifest) trimmed() bool {
	return slices.ContainsFunc(m.Ranges(), func(r Range) bool { return !r.Full() })
}

// DecodeManifest is the inverse of Encode. The error wraps format.ErrCorrupt or format.ErrNewer.
func DecodeManifest(b []byte) (Manifest, error) {
	e, err := DecodeEdit(b)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Files: e.Add}
	if len(e.Remove) > 0 || e.Plan > 0 {
		return Manifest{}, fmt.Errorf("%w: manifest with removals or a plan", format.ErrCorrupt)
	}
	if err := m.Check(); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	if m.trimmed() != e.Trims {
		return Manifest{}, fmt.Errorf("%w: manifest with ranges that are not full, or does not say so", format.ErrCorrupt)
	}
	return m, nil
}

// End is the last seq of the files, 0 without files.
func (m Manifest) End() uint64 {
	if len(m.Files) == 0 {
		return 0
	}
	return m.Files[len(m.Files)-1].Last
}

// Oldest is the first seq of the files, 1 without files.
func (m Manifest) Oldest() uint64 {
	if len(m.Files) == 0 {
		return 1
	}
	return m.Files[0].First
}

// Find returns the index of the first file of the range that holds seq, or
// len(m.Files).
func (m Manifest) Find(seq uint64) int {
	i := sort.Search(len(m.Files), func(i int) bool { return m.Files[i].Last >= seq })
	if i < len(m.Files) && m.Files[i].First > seq {
		return len(m.Files)
	}
	return i
}

// Index is where the file stands in the manifest, -1 if it does not.
func (m Manifest) Index(f FileMeta) int {
	i, ok := slices.BinarySearchFunc(m.Files, f, compareFiles)
	if !ok || m.Files[i] != f {
		return -1
	}
	return i
}

// Apply returns the manifest after the edit, or why the edit is refused: it names
// a file that is not there, leaves a hole or an overlap, breaks a layer up, or moves
// a border that it should keep. Only the oldest ranges can go without others in
// their place, and files of other ranges if some stay and the edit trims. Pure.
func (m Manifest) Apply(e Edit) (Manifest, error) {
	next := Manifest{Files: make([]FileMeta, 0, len(m.Files)+len(e.Add))}
	gone := make(map[Hash]bool, len(e.Remove))
	for _, h := range e.Remove {
		gone[h] = true
	}
	for _, f := range m.Files {
		if gone[f.Hash] {
			delete(gone, f.Hash)
		} else {
			next.Files = append(next.Files, f)
		}
	}
	if kept := len(next.Files); len(gone) > 0 || kept != len(m.Files)-len(e.Remove) {
		return m, fmt.Errorf("the edit removes %d files, of which the manifest does not hold %d", len(e.Remove), len(e.Remove)-len(m.Files)+kept)
	}
	next.Files = append(next.Files, e.Add...)
	Sort(next.Files)
	if err := next.Check(); err != nil {
		return m, err
	}
	if err := m.keepsBorders(next); err != nil {
		return m, err
	}
	if err := m.keepsMessages(next, e.Trims); err != nil {
		return m, err
	}
	return next, nil
}

// Sort puts the files of a layer into the order of the manifest.
func Sort(files []FileMeta) { slices.SortFunc(files, compareFiles) }

func compareFiles(a, b FileMeta) int {
	return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Ancestor, b.Ancestor), bytes.Compare(a.Hash[:], b.Hash[:]))
}

// keepsBorders reports an end that moves back, an oldest seq that moves back or into
// a range, and a newest range that is replaced by a longer one.
func (m Manifest) keepsBorders(next Manifest) error {
	switch {
	case next.End() < m.End():
		return fmt.Errorf("the edit moves the end of the files from %d to %d", m.End(), next.End())
	case len(m.Files) == 0 && next.Oldest() == 1:
		return nil
	case next.Oldest() < m.Oldest() || len(m.Files) == 0:
		return fmt.Errorf("the edit starts the files at %d, they start at %d", next.Oldest(), m.Oldest())
	}
	if next.Oldest() == m.End()+1 {
		return nil // all others went
	}
	if i := m.Find(next.Oldest()); i == len(m.Files) || m.Files[i].First != next.Oldest() {
		return fmt.Errorf("the edit starts the files at %d, which is not the start of a range", next.Oldest())
	}
	if f := next.Files[next.Find(m.End())]; f.Last != m.End() {
		return fmt.Errorf("the edit has a range %d to %d over the end of the files, %d", f.First, f.Last, m.End())
	}
	return nil
}

// keepsMessages reports a range that has fewer messages than those that it replaces had, if
// the edit does not say so, and one behind the end that is not full.
func (m Manifest) keepsMessages(next Manifest, trims bool) error {
	i := 0
	for _, r := range next.Ranges() {
		want := uint64(0)
		for ; i < len(m.Files) && m.Files[i].Last <= r.Last; i++ {
			if m.Files[i].First >= r.First {
				want += m.Files[i].Messages
			}
		}
		if r.First > m.End() {
			want = r.Last - r.First + 1
		}
		if n := r.Messages(); n > want || n < want && (!trims || r.First > m.End()) {
			return fmt.Errorf("the files of the range %d to %d hold %d messages, want %d", r.First, r.Last, n, want)
		}
	}
	return nil
}

// Check reports files that do not stand in a row, and a layer that is not whole.
func (m Manifest) Check() error {
	for i := 0; i < len(m.Files); {
		n := m.Layer(i)
		if err := checkRange(m.Files[i : i+n]); err != nil {
			return err
		}
		f := m.Files[i]
		if i > 0 {
			if before := m.Files[i-1]; f.First != before.Last+1 {
				return fmt.Errorf("file %d to %d does not follow on file %d to %d", f.First, f.Last, before.First, before.Last)
			} else if f.FirstTime < before.LastTime {
				return fmt.Errorf("file %d to %d starts at time %d, before the end of the file before it, %d", f.First, f.Last, f.FirstTime, before.LastTime)
			}
		}
		i += n
	}
	return nil
}

// checkRange checks the files of one range.
func checkRange(files []FileMeta) error {
	first, messages := files[0], uint64(0)
	for i, f := range files {
		if err := f.check(); err != nil {
			return err
		}
		if i > 0 && (f.Kind != KindStore || first.Kind != KindStore || f.Last != first.Last) {
			return fmt.Errorf("file %d to %d does not follow on file %d to %d", f.First, f.Last, first.First, first.Last)
		}
		if f.FirstTime != first.FirstTime || f.LastTime != first.LastTime || f.Level != first.Level || i > 0 && compareFiles(files[i-1], f) >= 0 {
			return fmt.Errorf("store %s is none of the layer %d to %d, times %d to %d", f.Hash, first.First, first.Last, first.FirstTime, first.LastTime)
		}
		messages += f.Messages
	}
	if n := first.Last - first.First + 1; messages > n {
		return fmt.Errorf("the files of the range %d to %d hold %d messages, want %d", first.First, first.Last, messages, n)
	}
	return nil
}
