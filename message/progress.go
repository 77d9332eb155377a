package message

// Progress says how far one read of a part of the stream came. The readers of
// the tip and of the history answer with the same words, so that a cursor can
// move from one to the other.
type Progress struct {
	// Count is how many messages were appended.
	Count int
	// Scanned is the last seq that was considered: every message up to it either
	// was delivered or is not wanted. Reading continues behind it.
	Scanned uint64
}
