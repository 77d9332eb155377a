package members

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"chorale/api"
	"chorale/cmd/show"

	"google.golang.org/protobuf/encoding/protojson"
)

func printJSON(w io.Writer, r *api.ListMembersResponse) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(r)
	if err != nil {
		return err
	}
	var out bytes.Buffer // protojson varies its spaces on purpose
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

func print(w io.Writer, r *api.ListMembersResponse) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tROLE\tWANTED\tGOSSIP\tCAUGHT UP\tVERSION\tLEVELS\tAPI\tRAFT")
	for _, m := range r.Members {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.NodeId, role(m), wanted(m), m.Gossip, caughtUp(m, r.LeaderId != ""),
			show.Build(m.Version, m.LowestLevel, m.HighestLevel), cmp.Or(m.ApiAddress, "-"), cmp.Or(m.RaftAddress, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Members) == 0 {
		_, err := fmt.Fprintf(w, "\nnode %s belongs to no cluster yet: chorale status says what it waits for\n", r.NodeId)
		return err
	}
	if r.LeaderId == "" {
		_, err := fmt.Fprintf(w, "\nno leader is known: this is what node %s knows by itself. Nothing can change until a majority of the voters runs;\nif it is gone for good, see chorale recover-quorum --help\n", r.NodeId)
		return err
	}
	if held := r.Level.GetHeld(); held != "" {
		_, err := fmt.Fprintf(w, "\nthe log is at level %s\n", show.Level(r.Level.InUse, held))
		return err
	}
	return nil
}

func name(r api.Member_Role) string {
	switch r {
	case api.Member_VOTER:
		return "voter"
	case api.Member_NON_VOTER:
		return "non-voter"
	}
	return "-"
}

func role(m *api.Member) string {
	if m.Leader {
		return "leader"
	}
	return name(m.Role)
}

func wanted(m *api.Member) string {
	switch {
	case m.Invited:
		return name(m.Wish) + ", has not joined"
	case m.Wish == api.Member_NONE:
		return "removed"
	}
	return name(m.Wish)
}

func caughtUp(m *api.Member, led bool) string {
	switch {
	case m.Role == api.Member_NONE:
		return "-"
	case !led:
		return "not known"
	case !m.Heard:
		return "no answer"
	case m.MissingFiles > 0:
		return fmt.Sprintf("%s files missing, %s", show.Count(m.MissingFiles), show.Bytes(m.MissingBytes))
	case !m.CaughtUp:
		return fmt.Sprintf("%s entries behind", show.Count(m.LogLag))
	}
	return "yes"
}
