package segments

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes the histories of the property tests long, unless the flags of
// rapid say otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "60", "rapid.steps": "60"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	goleak.VerifyTestMain(m)
}
