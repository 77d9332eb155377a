package main

import (
	"errors"
	"fmt"
	"slices"

	"chorale/client"
	"chorale/cmd/compare"
	"chorale/cmd/connect"
	"chorale/cmd/show"

	"github.com/spf13/cobra"
)

// compare compares the messages of two clusters.
func (v *verifyCmd) compare(cmd *cobra.Command, c *client.Client) error {
	other := connect.Connection{Addrs: v.against}
	o, err := other.Dial()
	if err != nil {
		return err
	}
	defer o.Close()
	names := [2]string{v.Addrs[0], v.against[0]}
	bar := show.NewProgress(cmd.ErrOrStderr(), -1, "message")
	r, err := compare.Messages(cmd.Context(), compare.Side{Name: names[0], Client: c}, compare.Side{Name: names[1], Client: o}, v.to, bar.Set)
	bar.Close()
	var found *compare.Difference
	if err != nil && !errors.As(err, &found) {
		both := connect.Connection{Addrs: slices.Concat(v.Addrs, v.against)}
		return both.Explain(err)
	}
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
