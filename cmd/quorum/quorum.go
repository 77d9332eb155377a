// Package quorum is the command for a cluster that has lost its majority for good.
package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"chorale/cmd/settings"
	"chorale/cmd/stdin"
	"chorale/node"
	"chorale/node/quorum"

	"github.com/spf13/cobra"
)

const long = `Make the stopped node whose data folder is DIR the only voter of a cluster of its own,
when a majority of the voters is gone for good. Nothing else brings such a cluster back,
and nothing is worse while a majority may still come back: then start that instead.

First stop all survivors and compare them with --inspect, which changes nothing. It
takes several folders, and prints what each has, the best one first: recover that one.
On machines of their own compare LAST ENTRY: the highest term, then the highest index.
A folder that lacks files can be given copies of another survivor's segments/*.

What this node does not have is lost. What its log has becomes part of the stream, even
if it was never acknowledged. The cluster gets a new id, so that what comes back of the
old one is told apart and refused; positions of subscribers from before are refused too.
All other nodes are removed. Before this one starts, empty the folders of all of them or
move them away, even of those that seem lost: old folders that are a majority of the old
voters go on as the old cluster, and what is published to them is lost. Then start them
with empty folders, with --join and without --bootstrap-expect.

It prints all that and asks for the node's id before it changes anything.`

type command struct {
	inspect, json, yes bool
}

// New makes the command.
func New() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use: "recover-quorum DIR...", Short: "Go on with one node when a majority is lost for good", Long: long,
		Example: "  chorale recover-quorum --inspect /var/lib/chorale\n  chorale recover-quorum /var/lib/chorale",
		Args:    cobra.MinimumNArgs(1), RunE: c.run, ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	f := cmd.Flags()
	f.BoolVar(&c.inspect, "inspect", false, "only print what each of the folders has")
	f.BoolVar(&c.json, "json", false, "with --inspect: print a JSON array")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	return cmd
}

func (c *command) run(cmd *cobra.Command, dirs []string) error {
	switch {
	case c.inspect && c.yes:
		return settings.Usagef("--inspect changes nothing, so --yes has no meaning with it")
	case c.inspect:
		return c.compare(cmd, dirs)
	case c.json:
		return settings.Usagef("--json needs --inspect")
	case len(dirs) > 1:
		return settings.Usagef("only one folder can be recovered: --inspect compares several")
	}
	return c.recover(cmd, dirs[0])
}

// compare prints what folders have. Those that cannot be read are told of behind the
// others.
func (c *command) compare(cmd *cobra.Command, dirs []string) error {
	reports, all := []quorum.Report{}, []error{}
	for _, dir := range dirs {
		s, err := node.OpenSurvivor(dir)
		if err == nil {
			reports = append(reports, s.Report)
			err = s.Close()
		}
		all = append(all, err)
	}
	if len(reports) == 0 {
		return errors.Join(all...) // an empty table would say that there is nothing to find
	}
	slices.SortStableFunc(reports, quorum.Compare)
	print := table
	if c.json {
		print = printJSON
	}
	return errors.Join(print(cmd.OutOrStdout(), reports), errors.Join(all...), oneCluster(reports))
}

// oneCluster refuses to compare what has nothing to do with each other.
func oneCluster(reports []quorum.Report) error {
	for _, r := range reports {
		if r.Cluster != reports[0].Cluster {
			return fmt.Errorf("the folders are of different clusters, %s is of %q and %s of %q: compare those of one", reports[0].Folder, reports[0].Cluster, r.Folder, r.Cluster)
		}
	}
	return nil
}

func (c *command) recover(cmd *cobra.Command, dir string) error {
	s, err := node.OpenSurvivor(dir)
	if err != nil {
		return err
	}
	return errors.Join(c.recoverOpen(cmd, s), s.Close())
}

func (c *command) recoverOpen(cmd *cobra.Command, s *node.Survivor) error {
	out := cmd.OutOrStdout()
	if err := details(out, s.Report); err != nil {
		return err
	}
	if err := s.Refusal(); err != nil {
		return err
	}
	if err := consequences(out, s.Report); err != nil {
		return err
	}
	if !c.yes {
		fmt.Fprintf(cmd.ErrOrStderr(), "\nTo go on, type the id of this node (%s): ", s.Node)
		if typed := firstLine(cmd); typed != s.Node {
			return fmt.Errorf("%q was typed, not %q: nothing was changed", typed, s.Node)
		}
	}
	cluster, err := s.Recover()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nNode %s is what is left of the cluster, which has the id %s now. Empty the folders of all\n"+
		"others or move them away, so that none goes on as the old cluster; then start this node as ever, and\n"+
		"the others with empty folders and --join, without --bootstrap-expect.\n", s.Node, cluster)
	return err
}

// firstLine is what is typed, "" if nothing is.
func firstLine(cmd *cobra.Command) string {
	for line, err := range stdin.Lines(cmd.Context(), cmd.InOrStdin()) {
		if err != nil {
			break
		}
		return strings.TrimSpace(line)
	}
	return ""
}
