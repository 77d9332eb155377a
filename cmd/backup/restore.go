package backup

import (
	"errors"
	"fmt"
	"os"

	"chorale/backup"
	"chorale/cmd/settings"
	"chorale/disk"
	"chorale/node"

	"github.com/spf13/cobra"
)

const restoreLong = `Found a new cluster from a backup: make a data folder that holds what the backup holds,
for one node. Seqs, times, topics, producers and retention are kept; the id of the
cluster is new, so that a client that had read from the old one is told, and no node of
the old one joins.

Start that node with --id and --data, and without --bootstrap-expect. It is the only
voter; other nodes join it, each with an empty folder and --join.

Run it as the user of the node; or as root, into a folder that belongs to that user.
The data folder must be empty or not exist yet. Every file is checked against its
SHA-256. After an interruption no node starts with the folder, and the same command
goes on.`

type restoreCmd struct {
	id, data string
	json     bool
}

// NewRestore makes the command restore.
func NewRestore() *cobra.Command {
	var r restoreCmd
	r.id, _ = os.Hostname()
	cmd := &cobra.Command{
		Use:     "restore DIR",
		Short:   "Found a new cluster from a backup",
		Long:    restoreLong,
		Example: "  chorale restore /backup/chorale --id n1 --data /var/lib/chorale\n  chorale serve --id n1 --data /var/lib/chorale",
		Args:    oneFolder, RunE: r.run, ValidArgsFunction: completeFolder,
	}
	cmd.Flags().StringVar(&r.id, "id", r.id, "`name` of the node, for ever")
	cmd.Flags().StringVar(&r.data, "data", "chorale-data", "data `folder` of the node: a new or an empty one")
	cmd.Flags().BoolVar(&r.json, "json", false, "print what was done as a JSON object")
	return cmd
}

func (r *restoreCmd) run(cmd *cobra.Command, args []string) error {
	release, err := lock(args[0], false)
	if err != nil {
		return err
	}
	defer release()
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	d, cluster, err := backup.Restore{
		From: disk.OS(args[0]), Space: space(r.data), Progress: bar.set,
		Open: func(cluster string) (backup.Target, error) { return node.BeginRestore(r.data, r.id, cluster) },
	}.Run(cmd.Context())
	bar.close()
	var bad *node.ConfigError
	if errors.As(err, &bad) {
		return settings.Usagef("--%s = %q: %s", bad.Key, bad.Value, bad.Allowed)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", args[0], full(err))
	}
	if r.json {
		return encode(cmd.OutOrStdout(), struct {
			Node    string `json:"node_id"`
			Data    string `json:"data"`
			Cluster string `json:"cluster_id"`
			From    string `json:"from_cluster_id"`
			Seq     uint64 `json:"seq"`
			Files   int    `json:"files"`
			Bytes   int64  `json:"bytes"`
		}{r.id, r.data, fmt.Sprintf("%x", cluster), d.Cluster, d.Seq, d.Files, d.Bytes})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `restored  %s
holds     %s
cluster   %x, a new one; node %s in %s is its only member
start it  chorale serve --id %s --data %s
others    chorale serve --id ... --data EMPTY --join HOST:PORT   (the gossip address of node %s)
`, subject(d), contents(d), cluster, r.id, r.data, r.id, r.data, r.id)
	return err
}
