package node

import (
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// endedBadly is the line of a node that ends with an error.
const endedBadly = "ended"

func (c Config) logger() hclog.Logger {
	out := c.LogOutput
	if out == nil {
		out = os.Stderr
	}
	return hclog.New(&hclog.LoggerOptions{
		Name: c.ID, Level: hclog.LevelFromString(c.LogLevel), JSONFormat: c.LogJSON, Output: out, Exclude: c.leftOut,
	})
}

// leftOut reports whether a line is not worth a person's attention. Who asks for
// debug wants all of them.
func (c Config) leftOut(level hclog.Level, msg string, args ...any) bool {
	switch {
	case level < hclog.Warn, hclog.LevelFromString(c.LogLevel) <= hclog.Debug:
		return false
	case c.hush != nil && c.hush():
		return msg != endedBadly
	}
	return ordinary(msg, args)
}

// ordinary reports whether a warning of Raft's or of gossip's is of what happens in
// every start and every end. The same words about anything else are a warning.
func ordinary(msg string, args []any) bool {
	switch msg {
	case "no known peers, aborting election":
		return true // the cluster is not founded yet; the formation says so
	case "heartbeat timeout reached, starting election":
		return value(args, "last-leader-id") == "" // nobody has led yet
	case "failed to get previous log":
		return value(args, "last-index") == "0" // the log is empty yet
	case "appendEntries rejected, sending older logs":
		return value(args, "next") == "1" // the same, as the leader sees it
	case "failed to decode incoming command":
		return value(args, "error") == "transport shutdown" // this node ends
	}
	return strings.HasPrefix(msg, "memberlist: ") && strings.HasSuffix(msg, "use of closed network connection")
}

// value is what a log line says beside a key.
func value(args []any, key string) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == key {
			return fmt.Sprint(args[i+1])
		}
	}
	return "none"
}
