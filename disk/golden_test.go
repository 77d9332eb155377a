package disk

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the transcripts in testdata. "do" runs its lines and says what
// failed; "worlds" runs all lines since "reset" on many disks, with a seed each,
// cuts the power and lists how often each different remainder was found. After a
// change on purpose: go test ./disk -run Golden -rewrite, and read the difference.
func TestGolden(t *testing.T) {
	for _, transcript := range []string{"crash", "faults"} {
		t.Run(transcript, func(t *testing.T) {
			s := newScript(0)
			var lines []string
			datadriven.RunTest(t, "testdata/"+transcript, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "reset":
					var seed uint64
					d.MaybeScanArgs(t, "seed", &seed)
					s, lines = newScript(seed), nil
					return ""
				case "do":
					var out strings.Builder
					for line := range strings.SplitSeq(d.Input, "\n") {
						lines = append(lines, line)
						if text := s.do(line); text != "" {
							fmt.Fprintf(&out, "%s: %s\n", line, text)
						}
					}
					return out.String()
				case "worlds":
					return worlds(lines)
				}
				d.Fatalf(t, "no command %s", d.Cmd)
				return ""
			})
		})
	}
}

// worlds lists what a crash behind the lines can leave.
func worlds(lines []string) string {
	const seeds = 2000
	count := map[string]int{}
	for seed := range uint64(seeds) {
		s := newScript(seed)
		for _, line := range lines {
			s.do(line)
		}
		s.m.Crash()
		count[tree(s.m)]++
	}
	var out []string
	for world, n := range count {
		out = append(out, fmt.Sprintf("%-60s %3.0f%%", world, 100*float64(n)/seeds))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// script runs lines such as "create f", "write f 3000*x" on a Mem.
type script struct {
	m    *Mem
	open map[string]File
}

func newScript(seed uint64) *script { return &script{NewMem(seed), map[string]File{}} }

func (s *script) do(line string) string {
	w := append(strings.Fields(line), "", "")
	var err error
	switch w[0] {
	case "mkdir":
		err = s.m.MkdirAll(w[1])
	case "create":
		s.open[w[1]], err = s.m.Create(w[1])
	case "open":
		s.open[w[1]], err = s.m.Open(w[1])
	case "write":
		n, e := io.WriteString(s.open[w[1]], expand(w[2]))
		if err = e; err != nil {
			return fmt.Sprintf("%v (%d written)", err, n)
		}
	case "read": // the file, and what is read of it
		f := s.open[w[1]]
		n, _ := f.Size()
		b := make([]byte, n)
		if _, err = f.ReadAt(b, 0); err == nil {
			return shrink(b)
		}
	case "sync":
		err = s.open[w[1]].Sync()
	case "close":
		err = s.open[w[1]].Close()
	case "rename":
		err = s.m.Rename(w[1], w[2])
	case "remove":
		err = s.m.Remove(w[1])
	case "syncdir":
		err = s.m.SyncDir(w[1])
	case "ls":
		return tree(s.m)
	case "unsynced":
		return strings.Join(s.m.Unsynced(), " ")
	case "crash":
		s.m.Crash()
	case "on":
		err = s.m.Fault(line)
	case "clear":
		s.m.ClearFaults()
	default:
		return "no such command"
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// expand makes "3*ab" into "ababab"; shrink shortens runs of a byte in the same
// way, with . for zero.
func expand(s string) string {
	if n, rest, ok := strings.Cut(s, "*"); ok {
		times, _ := strconv.Atoi(n)
		return strings.Repeat(rest, times)
	}
	return s
}

func shrink(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := 1
		for n < len(b) && b[n] == b[0] {
			n++
		}
		c := string(b[0])
		if b[0] == 0 {
			c = "."
		}
		if n < 4 {
			out.WriteString(strings.Repeat(c, n))
		} else {
			fmt.Fprintf(&out, "(%d*%s)", n, c)
		}
		b = b[n:]
	}
	return out.String()
}

// tree is all files with their bytes and all empty folders, in one line.
func tree(m *Mem) string {
	var out []string
	var walk func(dir string)
	walk = func(dir string) {
		infos, err := m.List(dir)
		if err != nil {
			out = append(out, err.Error())
		}
		if len(infos) == 0 {
			out = append(out, dir+"/")
		}
		for _, i := range infos {
			name := path.Join(dir, i.Name())
			if i.IsDir() {
				walk(name)
			} else if b, err := m.ReadFile(name); err != nil {
				out = append(out, err.Error())
			} else {
				out = append(out, name+"="+shrink(b))
			}
		}
	}
	walk(".")
	return strings.Join(out, " ")
}
