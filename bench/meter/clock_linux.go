package meter

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func processTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(fmt.Sprintf("meter: clock %d: %v", id, err))
	}
	return time.Duration(t.Nano())
}
