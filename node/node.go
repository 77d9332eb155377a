package node

import "context"

// Run runs a node until ctx ends (graceful; nil) or until something fails for
// good: the error then says what, for a person. The process is expected to end
// after an error.
func Run(ctx context.Context, c Config) error { panic("contract") }

// Dev says how to run a whole cluster in one process, to try Chorale.
type Dev struct {
	Nodes    int    // 1 to 9
	Dir      string // each node has a folder below it
	Port     int    // of the first node's API; node i takes Port+10i to Port+10i+3; 0: the system chooses
	TipBytes int64  // of each node
	LogLevel string
	LogJSON  bool
	Version  string
	// Ready is called once, when all nodes serve, with their addresses.
	Ready func([]Addresses)
}

// Addresses are what others reach a node by.
type Addresses struct{ ID, API, HTTP, Raft, Gossip string }

// RunDev runs the cluster until ctx ends (nil) or a node fails.
func RunDev(ctx context.Context, d Dev) error { panic("contract") }
