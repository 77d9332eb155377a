package node

import (
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chorale/compactor"
	"chorale/message"
	"chorale/raftfsm/level"

	"github.com/hashicorp/raft"
)

// Listener is an address to listen on and the one that others are told. Both are
// host:port. Port 0 lets the system choose. Advertise may be empty: it is then
// the address that is listened on; a part of it may be missing ("host", ":port")
// and is taken from there.
type Listener struct{ Bind, Advertise string }

// Config is everything that a node must be told. DefaultConfig fills what has a
// default.
type Config struct {
	ID  string // of the node, for ever; also its name in gossip
	Dir string // data folder

	API, HTTP, Raft, Gossip Listener

	// BootstrapExpect is how many empty nodes found a cluster together; 0: an empty
	// node waits to be added to one. A node that was founded with it may keep it.
	BootstrapExpect int
	// NonVoter: a node that joins a cluster never votes, unless it is promoted by hand.
	NonVoter bool
	// Join lists gossip addresses of other nodes, host:port. They are tried for
	// ever in the background.
	Join []string
	// GossipKey encrypts gossip: 16, 24 or 32 bytes in base64. Empty: not encrypted.
	GossipKey string

	TipBytes     int64 // memory of the tip's ring
	SegmentBytes int64 // of messages in a segment; counts when the cluster is founded
	PayloadLimit int   // bytes of one message
	// SnapshotBytes of log entries after which a snapshot is written and the log cut; half
	// as many stay.
	SnapshotBytes int64
	// Compact lets this node, when it leads, propose what is to be compacted. Every
	// node builds what was proposed.
	Compact bool
	// CompactRate is how many bytes a second compaction reads and writes here at most.
	CompactRate int64
	// StoreBytes of a range are worth a store of their own, in plans that this node
	// proposes.
	StoreBytes int64
	// ScrubEvery is how often every data file is read to verify it, 0 is never; and
	// ScrubRate how many bytes a second that may take, 0 is what ScrubEvery needs.
	ScrubEvery time.Duration
	ScrubRate  int64
	// FetchRate is how many bytes a second of data files this node fetches from others at
	// most, 0 is no limit.
	FetchRate int64
	// RemoveDead is for how long a member may be silent before this node, when it leads,
	// removes it for good: 10 s at least, or 0, which is for ever.
	RemoveDead time.Duration

	LogLevel string // trace, debug, info, warn, error
	LogJSON  bool
	Pprof    bool   // serve /debug/pprof
	Version  string // of the program, for status and for the other nodes
	// LogOutput is where the log goes; nil is standard error.
	LogOutput io.Writer

	// raft has other times than those of a real node; nil means those.
	raft *raft.Config
	// hush reports whether warnings are no news now; may be nil.
	hush func() bool
}

// DefaultConfig is a node on the loopback interface.
func DefaultConfig() Config {
	return Config{
		API:           Listener{Bind: "127.0.0.1:7070"},
		HTTP:          Listener{Bind: "127.0.0.1:7071"},
		Raft:          Listener{Bind: "127.0.0.1:7072"},
		Gossip:        Listener{Bind: "127.0.0.1:7073"},
		TipBytes:      256 << 20,
		SegmentBytes:  16 << 20,
		PayloadLimit:  message.DefaultPayloadLimit,
		SnapshotBytes: 256 << 20,
		Compact:       true,
		CompactRate:   64 << 20,
		StoreBytes:    compactor.DefaultSettings().StoreBytes,
		ScrubEvery:    7 * 24 * time.Hour,
		FetchRate:     64 << 20,
		LogLevel:      "info",
		Version:       "unknown",
	}
}

// ConfigError is a value that a node cannot run with.
type ConfigError struct {
	Key     string // as the flag is called: id, data, raft-addr ...
	Value   string
	Allowed string
}

// Error names key, value and what is allowed.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s = %q: %s", e.Key, e.Value, e.Allowed)
}

var (
	idRule    = "want 1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit"
	validID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	logLevels = []string{"trace", "debug", "info", "warn", "error"}
)

const (
	minTipBytes      = 1 << 20
	maxTipBytes      = 1 << 40
	minSegmentBytes  = 64 << 10
	maxSegmentBytes  = 4 << 30
	minCompactRate   = 64 << 10
	minStoreBytes    = 16 << 10
	maxStoreBytes    = 1 << 30
	minSnapshotBytes = 1 << 20
	maxSnapshotBytes = 1 << 40
	maxExpect        = 9
	minScrubEvery    = time.Second
	minRemoveDead    = 10 * time.Second
)

// Validate reports the first value that is not allowed, as a *ConfigError.
func (c Config) Validate() error {
	if !validID.MatchString(c.ID) {
		return &ConfigError{"id", c.ID, idRule}
	}
	if c.Dir == "" {
		return &ConfigError{"data", c.Dir, "want a folder"}
	}
	for _, l := range []struct {
		key string
		Listener
	}{{"api-addr", c.API}, {"http-addr", c.HTTP}, {"raft-addr", c.Raft}, {"gossip-addr", c.Gossip}} {
		if err := l.validate(l.key); err != nil {
			return err
		}
	}
	for _, j := range c.Join {
		if err := checkHostPort("join", j); err != nil {
			return err
		}
	}
	for _, t := range []struct {
		key        string
		value, min time.Duration
	}{{"scrub-every", c.ScrubEvery, minScrubEvery}, {"remove-dead-after", c.RemoveDead, minRemoveDead}} {
		if t.value != 0 && t.value < t.min {
			return &ConfigError{t.key, t.value.String(), fmt.Sprintf("want at least %v, or 0 for never", t.min)}
		}
	}
	for _, n := range []struct {
		key             string
		value, min, max int64
	}{
		{"bootstrap-expect", int64(c.BootstrapExpect), 0, maxExpect},
		{"tip-size", c.TipBytes, minTipBytes, maxTipBytes},
		{"segment-size", c.SegmentBytes, minSegmentBytes, maxSegmentBytes},
		{"snapshot-size", c.SnapshotBytes, minSnapshotBytes, maxSnapshotBytes},
		{"compact-rate", c.CompactRate, minCompactRate, math.MaxInt64},
		{"store-size", c.StoreBytes, minStoreBytes, maxStoreBytes},
		{"scrub-rate", c.ScrubRate, 0, math.MaxInt64},
		{"fetch-rate", c.FetchRate, 0, math.MaxInt64},
		{"payload-limit", int64(c.PayloadLimit), 1, message.MaxPayloadBytes},
	} {
		if n.value < n.min || n.value > n.max {
			return &ConfigError{n.key, strconv.FormatInt(n.value, 10), "want " + span(n.key, n.min, n.max)}
		}
	}
	if !slices.Contains(logLevels, c.LogLevel) {
		return &ConfigError{"log-level", c.LogLevel, "want one of " + strings.Join(logLevels, ", ")}
	}
	_, err := c.gossipKey()
	return err
}

// span is a range of values as an error tells it, those of sizes to be read too.
func span(key string, min, max int64) string {
	if key == "bootstrap-expect" {
		return fmt.Sprintf("%d to %d", min, max)
	}
	return fmt.Sprintf("%v to %v", message.Size(min), message.Size(max))
}

// compaction is what this node plans by when it leads.
func (c Config) compaction() compactor.Settings {
	s := compactor.DefaultSettings()
	s.StoreBytes = c.StoreBytes
	return s
}

// gossipKey is the decoded key, or nil.
func (c Config) gossipKey() ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(c.GossipKey)
	if n := len(key); err != nil || n != 0 && n != 16 && n != 24 && n != 32 {
		return nil, &ConfigError{"gossip-key", "(secret)", "want 16, 24 or 32 bytes in base64"}
	}
	return key, nil
}

func (l Listener) validate(key string) error {
	if err := checkHostPort(key, l.Bind); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(l.Bind)
	if adHost, _ := splitPart(l.Advertise); adHost == "" && unspecified(host) {
		return &ConfigError{"advertise", l.Advertise, fmt.Sprintf("want a host that others reach this node by, since %s = %q listens on all", key, l.Bind)}
	}
	return nil
}

func checkHostPort(key, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return &ConfigError{key, value, "want host:port with a port from 0 to 65535"}
	}
	return nil
}

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// splitPart splits "host:port", "host" or ":port"; what is missing is empty.
func splitPart(s string) (host, port string) {
	if h, p, err := net.SplitHostPort(s); err == nil {
		return h, p
	}
	return s, ""
}

// advertised is the address that others are told, given what is listened on.
func (l Listener) advertised(listening net.Addr) string {
	host, port, _ := net.SplitHostPort(listening.String())
	adHost, adPort := splitPart(l.Advertise)
	if adHost != "" {
		host = adHost
	}
	if adPort != "" && adPort != "0" {
		port = adPort
	}
	return net.JoinHostPort(host, port)
}

// Levels are those of the log that this build reads, for people.
func Levels() string { return level.Built().String() }
