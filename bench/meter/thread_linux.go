package meter

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("meter: the thread's clock: %v", err))
	}
	return time.Duration(t.Nano())
}
