//go:build !race

package tip

const raceEnabled = false
