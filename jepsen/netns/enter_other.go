//go:build !linux

package netns

import "errors"

// Enter does nothing here: see Missing.
func Enter() (code int, ran bool) {
	missing = errors.New("network namespaces: only Linux has them")
	return 0, false
}
