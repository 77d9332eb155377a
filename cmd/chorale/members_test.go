package main

import (
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// within runs a command of the program until a line of its output matches.
func within(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: within TIME REGEXP COMMAND...")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for deadline := time.Now().Add(limit); ; <-time.After(100 * time.Millisecond) {
		_ = ts.Exec(args[2], args[3:]...)
		out := ts.ReadFile("stdout")
		if want.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within %v: %s; the last output was\n%s", limit, args[1], out)
		}
	}
}
