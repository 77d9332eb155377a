package disk

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// operations are the words for OP in a fault; "any" is all of them.
var operations = []string{"create", "append", "open", "read", "write", "sync", "rename", "remove", "mkdir", "list", "syncdir"}

// failures are the words for what a fault fails with.
var failures = map[string]syscall.Errno{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT,
	"EROFS": syscall.EROFS, "EACCES": syscall.EACCES, "EMFILE": syscall.EMFILE,
}

// rule is a fault in force. Guarded by Mem.mu.
type rule struct {
	op, glob string
	after    int   // calls that pass first
	times    int   // calls that are hit at most; -1 is no bound
	limit    int64 // bytes that pass first; -1 is none
	action   string
	errno    syscall.Errno // of fail
	bit      int64         // of flip
	gate     chan struct{} // of stall: closed to let the stalled go on
}

// verdict is what the faults decide about a call.
type verdict struct {
	hit   bool    // the error comes from a fault
	lie   bool    // a sync that makes nothing durable
	pass  int     // bytes of a failed write that are written all the same
	flips []int64 // bits of the file that are read wrong
}

// Fault puts a fault in force, beside those that are:
//
//	on OP GLOB [after N] [times N] [limit BYTES] ACTION
//
// DESIGN.md explains the words. Examples:
//
//	on sync "*.seg" after 2 fail EIO
//	on write "*" limit 1048576 fail ENOSPC
//	on read "data/*.seg" flip bit 12345
//	on sync "*" stall
//	on syncdir "*" lie
//	on any "*" after 17 crash
func (m *Mem) Fault(line string) error {
	r, err := parseRule(line)
	if err != nil {
		return fmt.Errorf("fault %q: %w", line, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, r)
	return nil
}

// ClearFaults ends all faults and lets stalled calls go on.
func (m *Mem) ClearFaults() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release()
	m.faults = nil
}

// Release ends the stalls and lets the stalled calls go on.
func (m *Mem) Release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release()
	m.faults = slices.DeleteFunc(m.faults, func(r *rule) bool { return r.action == "stall" })
}

// release lets the calls that are stalled now go on.
func (m *Mem) release() {
	for _, r := range m.faults {
		if r.action == "stall" {
			close(r.gate)
			r.gate = make(chan struct{})
		}
	}
}

// admit asks the faults about a call on names with that many bytes to write.
// Mem.mu is held, but not while the call is stalled.
func (v *mount) admit(op string, bytes int, names ...string) (verdict, error) {
	out := verdict{pass: bytes}
	fail := func(err error) (verdict, error) {
		return out, &fs.PathError{Op: op, Path: strings.Join(names, " "), Err: err}
	}
	if v.life != v.m.life {
		out.pass = 0
		return fail(ErrPowerLost)
	}
	for _, r := range slices.Clone(v.m.faults) { // a stall gives others time to change them
		if !slices.Contains(v.m.faults, r) || !r.hits(op, names, &out.pass) {
			continue
		}
		switch r.action {
		case "stall":
			gate := r.gate
			v.m.mu.Unlock()
			<-gate
			v.m.mu.Lock()
		case "crash":
			v.m.crash()
		case "lie":
			out.lie = true
		case "flip":
			out.flips = append(out.flips, r.bit)
		case "fail":
			out.hit = true
			return fail(r.errno)
		}
		if v.life != v.m.life {
			out.pass = 0
			return fail(ErrPowerLost)
		}
	}
	return out, nil
}

// hits counts a call and reports whether the fault strikes it. Of a write it
// lowers pass to the bytes that get through.
func (r *rule) hits(op string, names []string, pass *int) bool {
	if r.op != "any" && r.op != op || r.times == 0 || !slices.ContainsFunc(names, r.matches) {
		return false
	}
	if r.after > 0 {
		r.after--
		return false
	}
	if r.limit >= 0 {
		if int64(*pass) <= r.limit {
			r.limit -= int64(*pass)
			return false
		}
		*pass, r.limit = int(r.limit), 0
	} else if r.action == "fail" {
		*pass = 0
	}
	r.times = max(r.times-1, -1)
	return true
}

func (r *rule) matches(name string) bool {
	if !strings.Contains(r.glob, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(r.glob, name) // the pattern was checked by parseRule
	return ok
}

func parseRule(line string) (*rule, error) {
	w := strings.Fields(line)
	if len(w) < 4 || w[0] != "on" {
		return nil, fmt.Errorf("want: on OP GLOB [after N] [times N] [limit BYTES] ACTION")
	}
	r := &rule{op: w[1], glob: w[2], times: -1, limit: -1}
	if r.op != "any" && !slices.Contains(operations, r.op) {
		return nil, fmt.Errorf("no operation %q: any, %s", r.op, strings.Join(operations, ", "))
	}
	if g, err := strconv.Unquote(r.glob); err == nil {
		r.glob = g
	}
	if _, err := path.Match(r.glob, ""); err != nil {
		return nil, fmt.Errorf("glob %q: %w", r.glob, err)
	}
	rest, err := r.parseCounts(w[3:])
	if err != nil {
		return nil, err
	}
	return r, r.parseAction(rest)
}

// parseCounts reads the optional counts and returns the words behind them.
func (r *rule) parseCounts(w []string) ([]string, error) {
	for ; len(w) > 0; w = w[2:] {
		word := w[0]
		if word != "after" && word != "times" && word != "limit" {
			return w, nil
		}
		n, err := number(w[1:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		switch word {
		case "after":
			r.after = int(n)
		case "times":
			r.times = int(n)
		case "limit":
			r.limit = n
		}
	}
	return w, nil
}

func (r *rule) parseAction(w []string) error {
	if len(w) == 0 {
		return fmt.Errorf("the action is missing: fail, stall, lie, flip or crash")
	}
	r.action = w[0]
	want := 1 // words of the action
	switch {
	case r.action == "fail":
		r.errno = syscall.EIO
		if len(w) > 1 {
			want = 2
			var ok bool
			if r.errno, ok = failures[w[1]]; !ok {
				return fmt.Errorf("no error %q: EIO, ENOSPC, EDQUOT, EROFS, EACCES, EMFILE", w[1])
			}
		}
	case r.action == "stall":
		r.gate = make(chan struct{})
	case r.action == "lie" && (r.op == "sync" || r.op == "syncdir"):
	case r.action == "lie":
		return fmt.Errorf("only sync and syncdir can lie, not %s", r.op)
	case r.action == "flip" && r.op != "read":
		return fmt.Errorf("only read can flip a bit, not %s", r.op)
	case r.action == "flip" && len(w) > 1 && w[1] == "bit":
		var err error
		if r.bit, err = number(w[2:]); err != nil {
			return fmt.Errorf("flip bit: %w", err)
		}
		want = 3
	case r.action == "crash":
		if r.times < 0 {
			r.times = 1 // else no life after it could do a thing
		}
	default:
		return fmt.Errorf("no action %q: fail, stall, lie, flip bit N or crash", strings.Join(w, " "))
	}
	if len(w) > want {
		return fmt.Errorf("%q is too much behind the action", strings.Join(w[want:], " "))
	}
	if r.limit >= 0 && (r.op != "write" || r.action != "fail") {
		return fmt.Errorf("a limit goes with write and fail only")
	}
	return nil
}

// number reads the first word as a count.
func number(w []string) (int64, error) {
	if len(w) == 0 {
		return 0, fmt.Errorf("a number is missing")
	}
	n, err := strconv.ParseInt(w[0], 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number from 0 up", w[0])
	}
	return n, nil
}
