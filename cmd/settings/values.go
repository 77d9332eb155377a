package settings

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"chorale/cmd/show"
)

// Size is a flag for an amount of memory or disk: 1048576, 64KiB, 1.5GiB.
type Size int64

// units are ordered so that no unit is the end of one tried before it.
var units = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1}, {"", 1},
}

// Set implements pflag.Value.
func (b *Size) Set(s string) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || v < 0 || v*u.bytes >= math.MaxInt64 || math.IsNaN(v) {
			break
		}
		*b = Size(v * u.bytes)
		return nil
	}
	return fmt.Errorf("want a number of bytes such as 1048576, 64KiB, 256MiB or 8GiB")
}

// Type implements pflag.Value.
func (b *Size) Type() string { return "size" }

// String implements pflag.Value.
func (b *Size) String() string { return show.Bytes(uint64(*b)) }

// Choice is a flag with a fixed set of values.
type Choice struct {
	Value   string
	Allowed []string
}

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Allowed, s) {
		return fmt.Errorf("allowed are %s", strings.Join(c.Allowed, ", "))
	}
	c.Value = s
	return nil
}

// Type implements pflag.Value.
func (c *Choice) Type() string { return strings.Join(c.Allowed, "|") }

// String implements pflag.Value.
func (c *Choice) String() string { return c.Value }

// Addresses is a flag for a list of host:port, parted by commas.
type Addresses struct {
	List *[]string // where the value is; what it holds before is the default
	set  bool      // the default is replaced, not added to
}

// Set implements pflag.Value.
func (a *Addresses) Set(s string) error {
	var list []string
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		_, port, err := net.SplitHostPort(part)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return fmt.Errorf("want host:port with a port from 0 to 65535, several parted by commas")
		}
		list = append(list, part)
	}
	if a.set {
		list = append(*a.List, list...)
	}
	*a.List, a.set = list, true
	return nil
}

// Type implements pflag.Value.
func (a *Addresses) Type() string { return "host:port,..." }

// String implements pflag.Value.
func (a *Addresses) String() string {
	if a.List == nil {
		return ""
	}
	return strings.Join(*a.List, ",")
}
