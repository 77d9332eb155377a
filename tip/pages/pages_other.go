//go:build !linux

package pages

// Reserve has nothing to give here.
func Reserve(int64) (usable, mapped []byte) { return nil, nil }

// Release does nothing here.
func Release([]byte) {}
