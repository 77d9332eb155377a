package main

import (
	"errors"
	"fmt"

	"chorale/cmd/compare"
	"chorale/cmd/connect"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

// compare compares the messages of two clusters.
func (v *verifyCmd) compare(cmd *cobra.Command) error {
	c, err := v.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	other := connect.Connection{Addrs: v.against, Flag: "against"}
	o, err := other.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer o.Close()
	sides := [2]compare.Side{{Name: v.Addrs[0], Client: c}, {Name: v.against[0], Client: o}}
	bar := show.NewProgress(cmd.ErrOrStderr(), -1, "message")
	r, err := compare.Messages(cmd.Context(), sides[0], sides[1], v.to, &compare.Watch{Progress: bar.Set, Wait: connect.Waiting(cmd.ErrOrStderr())})
	bar.Close()
	var found *compare.Difference
	if err != nil && !errors.As(err, &found) {
		return err
	}
	names := [2]string{sides[0].Name, sides[1].Name}
	print := compare.Print
	if v.json {
		print = compare.PrintJSON
	}
	if err := print(cmd.OutOrStdout(), r, names, found); err != nil {
		return err
	}
	switch {
	case found != nil:
		return fmt.Errorf("the clusters differ: %w", found)
	case r.Last < r.First && r.Kept[0][1] != r.Kept[1][1]:
		return errors.New("nothing could be compared: there is no message that both clusters have")
	}
	return nil
}
