package topic

import "slices"

// Selection is a set of filters over a table, for one reader: it remembers what
// it found out about ids and grows with the table. For one goroutine.
type Selection struct {
	table   *Table
	filters *Filters
	answers []*answers // by id / idsPerPage; nil where no topic was met

	partitions []uint32 // found so far, ascending
	seen       uint32   // partitions of the table that were considered
	missing    []string // partitions known by name that do not exist yet

	named []uint32 // ids found by Named
}

// answers holds two bits for each of a page of ids: 0 unknown, else wanted or not.
type answers [idsPerPage / 4]byte

const (
	idsPerPage = 2048
	wanted     = 1
	unwanted   = 2
)

// NewSelection costs no walk over the topics; for filters whose first two levels
// are literal, not even one over the partitions.
func NewSelection(t *Table, f *Filters) *Selection {
	return &Selection{table: t, filters: f, missing: f.partitions}
}

// Match reports whether the topic with this id is wanted. The filters are asked
// once a topic; later answers cost a look at two bits.
func (s *Selection) Match(id uint32) bool {
	if s.filters.All() {
		return true
	}
	page := int(id / idsPerPage)
	if page >= len(s.answers) {
		s.answers = append(s.answers, make([]*answers, page+1-len(s.answers))...)
	}
	if s.answers[page] == nil {
		s.answers[page] = new(answers)
	}
	at, shift := &s.answers[page][id%idsPerPage/4], id%4*2
	answer := *at >> shift & 3
	if answer == 0 {
		answer = unwanted
		if s.filters.Match(s.table.Name(id)) {
			answer = wanted
		}
		*at |= answer << shift
	}
	return answer == wanted
}

// All reports whether every topic is wanted.
func (s *Selection) All() bool { return s.filters.All() }

// Partitions lists the ids of all partitions, known to the table now, that may
// hold a wanted topic, ascending. The slice is valid until the next call.
//
// A reader loads the head of what it reads first and calls Partitions afterwards.
// Then none is missing of the messages up to that head: a partition is published
// before its first topic, that before the message is appended, and that before
// the head moves.
func (s *Selection) Partitions() []uint32 {
	n := s.table.Partitions()
	if n == s.seen {
		return s.partitions
	}
	if s.filters.anywhere {
		for p := s.seen; p < n; p++ {
			if s.filters.extent(s.table.PartitionName(p)) != nothing {
				s.partitions = append(s.partitions, p)
			}
		}
	} else {
		s.resolve()
	}
	s.seen = n
	return s.partitions
}

// resolve looks for partitions that were missing at the last call. What it finds
// may be newer than the count that Partitions loaded, and so out of order.
func (s *Selection) resolve() {
	var still []string
	for _, name := range s.missing {
		if p, ok := s.table.LookupPartition(name); ok {
			s.partitions = append(s.partitions, p)
		} else {
			still = append(still, name)
		}
	}
	s.missing = still
	slices.Sort(s.partitions)
}

// PartitionCovered reports whether every topic of the partition is wanted, also
// those that it does not have yet, so that a reader need not ask for each message.
func (s *Selection) PartitionCovered(p uint32) bool {
	return s.filters.All() || s.filters.extent(s.table.PartitionName(p)) == everything
}

// Reaches reports whether a topic may be wanted whose first levels are those of the topic
// with this id: at least one of them. It costs about what Filters.Match does.
func (s *Selection) Reaches(id uint32, levels int) bool {
	return s.filters.matcher.reaches(s.table.Name(id), levels)
}
