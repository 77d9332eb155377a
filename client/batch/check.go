package batch

import (
	"fmt"
	"math"

	"chorale/message"
	"chorale/topic"
)

// Check holds a unit against every rule that a node will hold it against, and
// returns an upper bound of its encoded bytes. A message that gets past it and is
// refused all the same costs the publisher more than itself.
func Check(entries []message.Entry, payloadLimit int) (size int, err error) {
	if len(entries) == 0 || len(entries) > message.MaxBatchMessages {
		return 0, fmt.Errorf("unit of %d messages: 1 to %d are allowed", len(entries), message.MaxBatchMessages)
	}
	for i := range entries {
		e := &entries[i]
		if err := topic.Validate(e.Topic); err != nil {
			return 0, err
		}
		if err := e.Draft.Validate(payloadLimit); err != nil {
			return 0, err
		}
		if e.Expected != nil && *e.Expected == math.MaxUint64 {
			return 0, fmt.Errorf("expected last seq %d: a stream never comes so far", *e.Expected)
		}
		size += e.Draft.EncodedBytes() + len(e.Topic) + message.Align
	}
	if most := message.MaxBatchBytes - message.BatchHeadBytes; size > most {
		return 0, fmt.Errorf("unit of %s: at most %s are allowed", message.Size(size), message.Size(most))
	}
	return size, nil
}
