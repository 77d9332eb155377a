package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"chorale/cmd/settings"
	"chorale/node"

	"github.com/spf13/cobra"
)

const serveLong = `Run one node until it is interrupted.

The first time, say how the cluster comes to be: --bootstrap-expect N on each of
the N nodes that found it, together with --join. An empty node with --join alone
joins the cluster that it finds there: it copies the data, and votes once it has
caught up, or never with --non-voter. A node that has data knows its cluster and
needs none of these, but they may stay; --join helps it to find the others after all
of them have moved. chorale members shows and changes who belongs to a cluster.

Four addresses: the API for clients, HTTP for /healthz, /readyz and /metrics,
Raft and gossip for the other nodes. --advertise is the host that others reach
this node by; it must be given where an address listens on all interfaces.`

const serveExample = `  chorale serve --id a --data /var/lib/chorale --bootstrap-expect 3 \
    --api-addr :7070 --http-addr :7071 --raft-addr :7072 --gossip-addr :7073 \
    --advertise a.example.org --join b.example.org:7073,c.example.org:7073`

func newServeCmd() *cobra.Command {
	c := node.DefaultConfig()
	c.Version = versionString()
	c.ID, _ = os.Hostname()
	advertise, payload := "", settings.Size(c.PayloadLimit)
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run a node",
		Long:    serveLong,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, l := range []*node.Listener{&c.API, &c.HTTP, &c.Raft, &c.Gossip} {
				l.Advertise = advertise
			}
			c.PayloadLimit = int(payload)
			return inUse(configError(node.Run(cmd.Context(), c)), "choose another one")
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.ID, "id", c.ID, "`name` of the node, for ever")
	f.StringVar(&c.Dir, "data", "chorale-data", "data `folder`")
	f.StringVar(&c.API.Bind, "api-addr", c.API.Bind, "`host:port` for clients")
	f.StringVar(&c.HTTP.Bind, "http-addr", c.HTTP.Bind, "`host:port` for health and metrics")
	f.StringVar(&c.Raft.Bind, "raft-addr", c.Raft.Bind, "`host:port` for Raft")
	f.StringVar(&c.Gossip.Bind, "gossip-addr", c.Gossip.Bind, "`host:port` for gossip, TCP and UDP")
	f.StringVar(&advertise, "advertise", "", "`host` that others reach this node by")
	f.Var(&settings.Addresses{List: &c.Join}, "join", "gossip addresses of other nodes")
	f.IntVar(&c.BootstrapExpect, "bootstrap-expect", 0, "found a cluster when this `many` empty nodes have met")
	f.BoolVar(&c.NonVoter, "non-voter", false, "join as a read replica that never votes")
	f.StringVar(&c.GossipKey, "gossip-key", "", "`key` that encrypts gossip: 16, 24 or 32 bytes in base64")
	f.Var((*settings.Size)(&c.SegmentBytes), "segment-size", "messages of a segment; counts when the cluster is founded")
	f.Var((*settings.Size)(&c.SnapshotBytes), "snapshot-size", "log entries after which a snapshot is written and the log cut, or an eighth of it while nothing comes; half as much stays, for nodes that were away for a moment; less is a faster start and a smaller log")
	f.Var(&payload, "payload-limit", "largest payload of a message")
	f.BoolVar(&c.Compact, "compact", c.Compact, "compact the history while this node leads")
	f.Var((*settings.Size)(&c.CompactRate), "compact-rate", "bytes a second that compaction reads, and writes, at most")
	f.Var((*settings.Size)(&c.StoreBytes), "store-size", "how many bytes of a compacted range are worth a store of their own, at most 128 a range; smaller stores mean that readers of few topics read less, and more files; counts while this node leads")
	f.Var(settings.SpanOrNone(&c.ScrubEvery), "scrub-every", "how often every data file is read, to find what went bad on the disk; 0 is never")
	f.Var((*settings.Size)(&c.ScrubRate), "scrub-rate", "bytes a second that this may read; 0 is what scrub-every needs, at least 1 MiB; a low rate takes longer than scrub-every says")
	f.Var((*settings.Size)(&c.FetchRate), "fetch-rate", "bytes a second of data files that this node, when it lacks some, fetches from the others at most, all together; 0 is no limit")
	f.Var(settings.SpanOrNone(&c.RemoveDead), "remove-dead-after", "remove a node from the cluster for good when the leader has not heard of it for so long, one at a time, and never where no majority would be left; longer than any maintenance; 0 is never")
	f.BoolVar(&c.Pprof, "pprof", false, "serve /debug/pprof on the HTTP address")
	addNodeFlags(cmd, &c.TipBytes, &c.LogLevel, &c.LogJSON)
	return cmd
}

// addNodeFlags adds what serve and dev have in common.
func addNodeFlags(cmd *cobra.Command, tipBytes *int64, logLevel *string, logJSON *bool) {
	f := cmd.Flags()
	f.Var((*settings.Size)(tipBytes), "tip-size", "memory for the newest messages")
	f.StringVar(logLevel, "log-level", "info", "`level`: trace, debug, info, warn or error")
	f.BoolVar(logJSON, "log-json", false, "log a JSON object a line")
	settings.CompleteFlag(cmd, "log-level", "trace", "debug", "info", "warn", "error")
}

// inUse adds to the error of a port that is taken what to do about it.
func inUse(err error, choose string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: end the process that has this port, maybe another node, or %s", err, choose)
	}
	return err
}

// configError turns a refused value into an error of usage: its key is a flag.
func configError(err error) error {
	var bad *node.ConfigError
	if errors.As(err, &bad) {
		return settings.Usagef("--%s = %q (or %s): %s", bad.Key, bad.Value, settings.EnvName(bad.Key), bad.Allowed)
	}
	return err
}
