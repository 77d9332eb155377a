//go:build !linux

package meter

import "time"

var start = time.Now()

func threadTime() time.Duration { return time.Since(start) }

func processTime() time.Duration { return time.Since(start) }
