package show

import (
	"strings"
	"testing"
)

func TestTree(t *testing.T) {
	root := &Tree{}
	root.Add("app/orders/created", 7, 700<<10)
	root.Add("app/orders", 1, 10)
	root.Add("app/orders/cancelled", 12_345, 30<<20)
	root.Add("metrics", 3, 0)
	for _, c := range []struct {
		depth int
		sort  string
		want  string
	}{
		{0, ByName, `
     messages        bytes     topics  topic
       12,356     30.7 MiB          4  **
       12,353     30.7 MiB          3  ├── app
       12,353     30.7 MiB          3  │   └── orders
       12,345       30 MiB          1  │       ├── cancelled
            7      700 KiB          1  │       └── created
            3          0 B          1  └── metrics
`},
		{1, ByMessages, `
     messages        bytes     topics  topic
       12,356     30.7 MiB          4  **
       12,353     30.7 MiB          3  ├── app
            3          0 B          1  └── metrics
`},
	} {
		var out strings.Builder
		if err := root.Print(&out, c.depth, c.sort); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != c.want[1:] {
			t.Errorf("depth %d by %s: got\n%s", c.depth, c.sort, got)
		}
	}
}
