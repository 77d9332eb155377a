package compactor

// Rewrite is the plan that rewrites the i-th range where it is, of which half has gone or more:
// so many bytes of its files are left, about. False for a range that is to be merged yet, since
// what has gone is left out then. Pure.
//
// Whoever asks for it when half of the messages have gone, writes each at most once more on
// average, however often: a half, a quarter, and so on.
func Rewrite(ranges []Range, i int, left int64, s Settings) (Plan, bool) {
	if ranges[i].Level < TopLevel {
		return Plan{}, false
	}
	return s.plan(ranges, ranges[i:i+1], left), true
}

// plan rewrites neighbouring ranges as stores for so many bytes.
func (s Settings) plan(all, due []Range, bytes int64) Plan {
	p := Plan{Chapter: s.ChapterBytes}
	for _, r := range due {
		p.Inputs = append(p.Inputs, r.Files...)
	}
	left := s.MaxFiles + len(p.Inputs)
	for _, r := range all {
		left -= len(r.Files)
	}
	p.Stores = uint32(max(min(bytes/s.StoreBytes, int64(s.MaxStores), int64(left/s.FanOut)), 1))
	return p
}
