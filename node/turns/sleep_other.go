//go:build !linux

package turns

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
