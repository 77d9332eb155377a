//go:build !linux

package tip

const hugePage = 2 << 20

func reserve(int64) []byte { return nil }

func aligned(mapped []byte) []byte { return mapped }

func release([]byte) {}
