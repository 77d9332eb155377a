package retention

import (
	"fmt"

	"chorale/cmd/settings"
)

// keptBytes is a size that says its unit: a number whose unit was forgotten would let all
// but a few bytes of the history go.
type keptBytes struct{ settings.Size }

// Set implements pflag.Value.
func (b *keptBytes) Set(s string) error {
	if s != "" && '0' <= s[len(s)-1] && s[len(s)-1] <= '9' {
		return fmt.Errorf("want a size with its unit, such as 500MiB, 10GiB, or 1000B for bytes: what is beyond it is deleted")
	}
	return b.Size.Set(s)
}
