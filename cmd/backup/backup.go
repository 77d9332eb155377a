// Package backup is the commands that copy a cluster into a folder, check such a folder,
// and found another cluster from it.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"chorale/api"
	"chorale/backup"
	"chorale/client/source"
	"chorale/cmd/connect"
	"chorale/cmd/settings"
	"chorale/cmd/show"
	"chorale/disk"
	"chorale/segments"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const takeLong = `Copy everything of a cluster, as of its newest message, into a folder, from any node
and while publishing goes on: messages with their seqs and times, topics, producers,
retention.

The folder is made if it does not exist. If it holds an earlier backup of the same
cluster, only what is new is copied, and what is here is read and checked; what the
newer backup does not need is removed at the end. An interrupted run leaves the earlier
backup as it was, and the next one goes on with what has come. Every file is checked
against its SHA-256.

With - the backup is written to standard output as a tar stream, wholly each time. A
stream that was cut is no backup. It is unpacked (tar -xf) before it is verified or
restored, and an unpacked one can be brought up to date.

The nodes of --addr and the others that they know are asked. A cluster that is founded
from a backup: chorale restore.`

const verifyLong = `Read all of a backup and hold each file against its SHA-256. No node is needed.

It exits with 1 if something is missing or damaged; chorale backup mends that as long
as the cluster runs.`

// memberWait bounds the question for the other nodes.
const memberWait = 3 * time.Second

type takeCmd struct {
	connect.Connection
	json    bool
	version string
}

// New makes the command backup of a program of that version.
func New(version string) *cobra.Command {
	t := takeCmd{version: version}
	cmd := &cobra.Command{
		Use:   "backup DIR|-",
		Short: "Copy the cluster into a folder",
		Long:  takeLong,
		Example: "  chorale backup /backup/chorale --addr n1.example.org:7070\n  chorale backup verify /backup/chorale\n" +
			"  chorale backup - | ssh vault 'cat > chorale.tar'",
		Args: oneFolder, RunE: t.run, ValidArgsFunction: completeFolder,
	}
	t.AddFlags(cmd)
	cmd.Flags().BoolVar(&t.json, "json", false, "print what was done as a JSON object")
	var asJSON bool
	verify := &cobra.Command{
		Use: "verify DIR", Short: "Read a backup and check every file", Long: verifyLong,
		Example: "  chorale backup verify /backup/chorale", Args: oneFolder, ValidArgsFunction: completeFolder,
		RunE: func(cmd *cobra.Command, args []string) error { return verifyBackup(cmd, args[0], asJSON) },
	}
	verify.Flags().BoolVar(&asJSON, "json", false, "print what was found as a JSON object")
	cmd.AddCommand(verify)
	return cmd
}

// oneFolder wants one argument, and says what it is.
func oneFolder(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return settings.Usagef("%s needs one folder", cmd.CommandPath())
	}
	if info, err := os.Stat(args[0]); err == nil && !info.IsDir() {
		return settings.Usagef("%s is not a folder; what chorale backup - has written is unpacked first, tar -xf FILE -C DIR", args[0])
	}
	return nil
}

// full adds to a lack of space what to do about it.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: make room, and run the same command again, which goes on from here", err)
	}
	return err
}

func completeFolder(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// clusterSource is a backup.Source.
type clusterSource struct{ *source.Source }

// File implements backup.Source.
func (c clusterSource) File(ctx context.Context, h segments.Hash, w io.Writer) error {
	err := c.Source.File(ctx, h[:], w)
	if errors.Is(err, source.ErrGone) {
		return backup.ErrGone
	}
	return err
}

func (t *takeCmd) run(cmd *cobra.Command, args []string) error {
	dir, stream := args[0], args[0] == "-"
	switch {
	case stream && t.json:
		return settings.Usagef("--json and the stream of - cannot both go to standard output")
	case stream && show.IsTerminal(cmd.OutOrStdout()):
		return settings.Usagef("- writes a tar stream, and standard output is a terminal: redirect it, or name a folder")
	}
	addresses, err := t.nodes(cmd.Context())
	if err != nil {
		return err
	}
	from, err := source.Dial(addresses, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return &settings.UsageError{Err: err}
	}
	defer from.Close()
	if stream {
		return t.stream(cmd, clusterSource{from})
	}
	if err := backup.Fit(disk.OS(dir)); err != nil {
		return fmt.Errorf("backup %s: %w", dir, err)
	}
	release, err := lock(dir, true)
	if err != nil {
		return err
	}
	defer release()
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	took, err := backup.Take{
		To: disk.OS(dir), Source: clusterSource{from}, Space: space(dir), Version: t.version, Progress: bar.set,
	}.Run(cmd.Context())
	bar.close()
	if err != nil {
		return fmt.Errorf("backup %s: %w", dir, full(t.Explain(err)))
	}
	if t.json {
		return printTakenJSON(cmd.OutOrStdout(), took)
	}
	return printTaken(cmd.OutOrStdout(), took)
}

// stream writes a tar stream.
func (t *takeCmd) stream(cmd *cobra.Command, from clusterSource) (err error) {
	scratch, err := os.MkdirTemp("", "chorale-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	took, err := backup.Stream{Source: from, Scratch: disk.OS(scratch), Version: t.version, Progress: bar.set}.Run(cmd.Context(), cmd.OutOrStdout())
	bar.close()
	if err != nil {
		return fmt.Errorf("the stream is cut and is no backup: %w", t.Explain(err))
	}
	return printTaken(cmd.ErrOrStderr(), took)
}

// nodes are those of --addr and the others that they know: one may have what another
// has lost. The error says that none of --addr answers.
func (t *takeCmd) nodes(ctx context.Context) ([]string, error) {
	c, err := t.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, memberWait)
	defer cancel()
	st, err := c.Status(ctx, "")
	if err != nil {
		return nil, t.Explain(err)
	}
	all := slices.Clone(t.Addrs)
	named := func(m *api.MemberStatus) bool {
		return slices.Contains(all, m.ApiAddress) || m.NodeId == st.NodeId || m.ApiAddress == "" || m.Gossip != "alive"
	}
	for _, m := range st.Members {
		if !named(m) {
			all = append(all, m.ApiAddress)
		}
	}
	return all, nil
}

func printTaken(w io.Writer, t backup.Taken) error {
	t2 := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t2, "backup\t%s, from node %s\n", subject(t.Description), t.Node)
	fmt.Fprintf(t2, "holds\t%s\n", contents(t.Description))
	fmt.Fprintf(t2, "copied\t%s, %s", show.Plural(uint64(t.Copied), "file"), show.Bytes(uint64(t.CopiedBytes)))
	if t.Bad > 0 {
		fmt.Fprintf(t2, "; %s of them here was damaged", show.Count(uint64(t.Bad)))
	}
	fmt.Fprintf(t2, "\nkept\t%s, found sound\n", show.Plural(uint64(t.Kept), "file"))
	if t.Removed > 0 {
		fmt.Fprintf(t2, "removed\t%s that it needs no more\n", show.Plural(uint64(t.Removed), "file"))
	}
	return t2.Flush()
}

// subject says what a backup is of.
func subject(d backup.Description) string {
	if d.Seq == 0 {
		return fmt.Sprintf("cluster %s, without a message", d.Cluster)
	}
	return fmt.Sprintf("cluster %s as of seq %s, %s", d.Cluster, show.Count(d.Seq), d.Time.Local().Format(time.DateTime))
}

// contents says what is in it.
func contents(d backup.Description) string {
	out := fmt.Sprintf("%s, %s; %s, %s", show.Plural(uint64(d.Files), "file"), show.Bytes(uint64(d.Bytes)),
		show.Plural(uint64(d.Topics), "topic"), show.Plural(uint64(d.Producers), "producer"))
	if d.Seq > 0 {
		out += fmt.Sprintf("; messages %s to %s", show.Count(d.OldestSeq), show.Count(d.Seq))
	}
	return out
}

func printTakenJSON(w io.Writer, t backup.Taken) error {
	return encode(w, struct {
		backup.Description
		Before      uint64 `json:"seq_before"`
		Copied      int    `json:"copied_files"`
		CopiedBytes int64  `json:"copied_bytes"`
		Bad         int    `json:"damaged_files"`
		Kept        int    `json:"kept_files"`
		Removed     int    `json:"removed_files"`
	}{t.Description, t.Before, t.Copied, t.CopiedBytes, t.Bad, t.Kept, t.Removed})
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func verifyBackup(cmd *cobra.Command, dir string, asJSON bool) error {
	release, err := lock(dir, false)
	if err != nil {
		return err
	}
	defer release()
	bar := newBar(cmd.ErrOrStderr())
	defer bar.close()
	d, bad, err := backup.Verify(cmd.Context(), disk.OS(dir), bar.set)
	bar.close()
	if err != nil {
		return fmt.Errorf("backup %s: %w", dir, err)
	}
	print := printVerified
	if asJSON {
		print = printVerifiedJSON
	}
	if err := print(cmd.OutOrStdout(), d, bad); err != nil {
		return err
	}
	if len(bad) > 0 {
		return fmt.Errorf("backup %s: %s missing or damaged: as long as the cluster runs, chorale backup copies them again", dir, show.Plural(uint64(len(bad)), "file"))
	}
	return nil
}

func printVerified(w io.Writer, d backup.Description, bad []backup.BadFile) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "backup\t%s, from node %s\n", subject(d), d.Node)
	fmt.Fprintf(t, "taken\t%s by version %s\n", d.Taken.Local().Format(time.DateTime), d.Version)
	fmt.Fprintf(t, "holds\t%s\n", contents(d))
	if len(bad) == 0 {
		fmt.Fprintln(t, "sound\tall of it")
		return t.Flush()
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(t, "\nMESSAGES\tFILE\tWHAT")
	for _, f := range bad {
		what := "damaged"
		if errors.Is(f.Why, fs.ErrNotExist) {
			what = "missing"
		}
		fmt.Fprintf(t, "%s to %s\t%s\t%s\n", show.Count(f.First), show.Count(f.Last), f.Name(), what)
	}
	return t.Flush()
}

func printVerifiedJSON(w io.Writer, d backup.Description, bad []backup.BadFile) error {
	type file struct {
		Name  string `json:"file"`
		First uint64 `json:"first_seq"`
		Last  uint64 `json:"last_seq"`
		Why   string `json:"why"`
	}
	out := struct {
		backup.Description
		Bad []file `json:"bad_files"`
	}{d, []file{}}
	for _, f := range bad {
		out.Bad = append(out.Bad, file{f.Name(), f.First, f.Last, f.Why.Error()})
	}
	return encode(w, out)
}

// bar shows how much is done once it is known of how much.
type bar struct {
	w     io.Writer
	total int64
	show  *show.Progress
}

func newBar(w io.Writer) *bar { return &bar{w: w, show: &show.Progress{}} }

func (b *bar) set(done, total int64) {
	if total != b.total {
		b.close()
		b.total, b.show = total, show.NewProgress(b.w, total, "B")
	}
	b.show.Set(done)
}

func (b *bar) close() {
	b.show.Close()
	b.show = &show.Progress{}
}
