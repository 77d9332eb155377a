//go:build race

package tip

const raceEnabled = true
