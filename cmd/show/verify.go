package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"chorale/api"
)

// NodeFiles is what one node says of its data files.
type NodeFiles struct {
	Address string
	Node    string
	Cluster string
	Oldest  uint64 // of the manifest
	End     uint64 // of the manifest
	Files   []*api.FileCheck
	Err     error // why it said nothing
}

// Difference is one file that is not the same on all nodes.
type Difference struct {
	Node  string `json:"node"`
	File  string `json:"file"`
	First uint64 `json:"first_seq"`
	Last  uint64 `json:"last_seq"`
	What  string `json:"what"`
	// layout: the node has the messages, in other files.
	layout bool
}

// OnlyLayout reports whether all nodes have all messages, if in different files.
func OnlyLayout(differences []Difference) bool {
	return !slices.ContainsFunc(differences, func(d Difference) bool { return !d.layout })
}

// Compare holds the files of all nodes that answered against each other. A node that is
// behind, or has let older files go, differs in nothing that it should have.
func Compare(nodes []NodeFiles) (out []Difference) {
	named := make(map[string]*api.FileCheck)
	by := make(map[string]string) // who names it
	for _, n := range nodes {
		for _, f := range n.Files {
			if named[f.Name] == nil {
				named[f.Name], by[f.Name] = f, n.Node
			}
		}
	}
	for _, n := range nodes {
		if n.Err != nil {
			continue
		}
		has := make(map[string]bool)
		differs := func(f *api.FileCheck, what string) {
			out = append(out, Difference{Node: n.Node, File: f.Name, First: f.FirstSeq, Last: f.LastSeq, What: what})
		}
		for _, f := range n.Files {
			has[f.Name] = true
			switch {
			case f.State == api.FileCheck_MISSING:
				differs(f, cmp.Or(f.Why, "missing"))
			case f.State == api.FileCheck_BAD:
				differs(f, "found bad just now: "+f.Why)
			case string(named[f.Name].Hash) != string(f.Hash):
				differs(f, fmt.Sprintf("has hash %x, on node %s %x", f.Hash, by[f.Name], named[f.Name].Hash))
			}
		}
		for name, f := range named {
			if !has[name] && f.FirstSeq <= n.End && f.LastSeq >= n.Oldest {
				differs(f, "in other files than on node "+by[name])
				out[len(out)-1].layout = true
			}
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.File, b.File), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// upTo is the last seq whose file all nodes that answered know.
func upTo(nodes []NodeFiles) uint64 {
	end, first := uint64(0), true
	for _, n := range nodes {
		if n.Err == nil && (first || n.End < end) {
			end, first = n.End, false
		}
	}
	return end
}

// bytes is how long the files of a node are.
func (n NodeFiles) bytes() (sum uint64) {
	for _, f := range n.Files {
		sum += f.Bytes
	}
	return sum
}

// count is how many differences are the node's.
func (n NodeFiles) count(differences []Difference) (count int) {
	for _, d := range differences {
		if d.Node == n.Node {
			count++
		}
	}
	return count
}

// shownDifferences is how many are listed for a person.
const shownDifferences = 20

// Verify prints what the nodes said, and how they differ.
func Verify(w io.Writer, nodes []NodeFiles, differences []Difference) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tFILES\tBYTES\tMESSAGES\tDIFFERENCES\tADDRESS")
	for _, n := range nodes {
		if n.Err != nil {
			fmt.Fprintf(t, "%s\tno answer\t\t\t\t%s\n", cmp.Or(n.Node, "?"), n.Address)
			continue
		}
		messages := "none in files"
		if n.End >= n.Oldest {
			messages = Count(n.Oldest) + " to " + Count(n.End)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\n", n.Node, len(n.Files), Bytes(n.bytes()), messages, n.count(differences), n.Address)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(differences) > 0 {
		fmt.Fprintln(t)
		fmt.Fprintln(t, "MESSAGES\tNODE\tFILE\tWHAT")
	}
	for _, d := range differences[:min(len(differences), shownDifferences)] {
		fmt.Fprintf(t, "%s to %s\t%s\t%s\t%s\n", Count(d.First), Count(d.Last), d.Node, d.File, d.What)
	}
	if n := len(differences) - shownDifferences; n > 0 {
		fmt.Fprintf(t, "and %d more, which --json lists\n", n)
	}
	fmt.Fprintf(t, "\nCompared up to message %s; what is newer is in no file of all nodes yet.\n", Count(upTo(nodes)))
	return t.Flush()
}

// VerifyJSON prints the same as an object.
func VerifyJSON(w io.Writer, nodes []NodeFiles, differences []Difference) error {
	type node struct {
		Node    string `json:"node"`
		Address string `json:"address"`
		Files   int    `json:"files"`
		Bytes   uint64 `json:"bytes"`
		Oldest  uint64 `json:"oldest_seq"`
		End     uint64 `json:"end_seq"`
		Differ  int    `json:"differences"`
		Error   string `json:"error,omitempty"`
	}
	out := struct {
		UpTo        uint64       `json:"compared_up_to"`
		Nodes       []node       `json:"nodes"`
		Differences []Difference `json:"differences"`
	}{UpTo: upTo(nodes), Differences: append([]Difference{}, differences...)}
	for _, n := range nodes {
		x := node{Node: n.Node, Address: n.Address, Files: len(n.Files), Bytes: n.bytes(), Oldest: n.Oldest, End: n.End, Differ: n.count(differences)}
		if n.Err != nil {
			x.Error = n.Err.Error()
		}
		out.Nodes = append(out.Nodes, x)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
