package turns

import (
	"syscall"
	"time"
)

// sleep sleeps as a thread does that waits for a disk: it wakes when it gets a processor.
// time.Sleep may wake a millisecond late on an idle machine, since the runtime waits for
// events in whole milliseconds.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&t, &t) == syscall.EINTR {
	}
}
