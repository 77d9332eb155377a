package manifest

import (
	"math"
	"path"
	"regexp"
	"strconv"
)

// DamagedSuffix ends the name of a data file that was put aside, behind its name.
const DamagedSuffix = ".damaged"

var dataName = regexp.MustCompile(`^([0-9]{20})-([0-9]{20})-[0-9a-f]{16}\.(seg|store)$`)

// RangeOf is the range of seqs in the name of a data file; false if it is none.
func RangeOf(name string) (first, last uint64, ok bool) {
	m := dataName.FindStringSubmatch(name)
	if m == nil {
		return 0, 0, false
	}
	first, errFirst := strconv.ParseUint(m[1], 10, 64)
	last, errLast := strconv.ParseUint(m[2], 10, 64)
	if errFirst != nil || errLast != nil { // more than a seq can be: nothing covers it
		return math.MaxUint64, math.MaxUint64, true
	}
	return first, last, true
}

// HasLike reports whether the manifest has files of the kind and the range that are in the
// name of a data file.
func (m Manifest) HasLike(name string) bool {
	first, last, _ := RangeOf(name)
	i := m.Find(first)
	return i < len(m.Files) && m.Files[i].First == first && m.Files[i].Last == last && path.Ext(m.Files[i].Name()) == path.Ext(name)
}
