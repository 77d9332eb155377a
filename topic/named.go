package topic

import "strings"

// Named lists the ids of the wanted topics, if every filter names one topic in full
// and there are at most limit of them, so that a reader can look for these topics
// instead of asking for each one that it meets. Topics that do not exist yet are
// left out; a later call finds them. The slice is valid until the next call.
func (s *Selection) Named(limit int) (ids []uint32, ok bool) {
	names := s.filters.canonical
	if len(names) > limit {
		return nil, false
	}
	if len(s.named) == len(names) {
		return s.named, true
	}
	s.named = s.named[:0]
	for _, name := range names {
		if strings.Contains(name, star) {
			return nil, false
		}
		if id, ok := s.table.Lookup(name); ok {
			s.named = append(s.named, id)
		}
	}
	return s.named, true
}
