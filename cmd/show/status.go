package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"chorale/api"

	"google.golang.org/protobuf/encoding/protojson"
)

// NodeStatus is what became of asking one node: a status or an error.
type NodeStatus struct {
	Address string
	Status  *api.GetStatusResponse
	Err     error
}

// jsonNode is a node in the output of --json; status is what docs of the API call
// GetStatusResponse.
type jsonNode struct {
	Address string          `json:"address"`
	Error   string          `json:"error,omitempty"`
	Status  json.RawMessage `json:"status,omitempty"`
}

// StatusJSON prints all answers as one object.
func StatusJSON(w io.Writer, nodes []NodeStatus) error {
	list, err := jsonNodes(nodes)
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"nodes": list})
}

// StatusLine prints the same in a line, with the time of asking in ns.
func StatusLine(w io.Writer, at time.Time, nodes []NodeStatus) error {
	list, err := jsonNodes(nodes)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(struct {
		Time  int64      `json:"time"`
		Nodes []jsonNode `json:"nodes"`
	}{at.UnixNano(), list})
}

func jsonNodes(nodes []NodeStatus) (list []jsonNode, err error) {
	for _, n := range nodes {
		j := jsonNode{Address: n.Address}
		if n.Err != nil {
			j.Error = n.Err.Error()
		} else {
			b, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(n.Status)
			if err != nil {
				return nil, err
			}
			j.Status = b
		}
		list = append(list, j)
	}
	return list, nil
}

// Status prints tables: what holds for the cluster, and a line per node. One of the
// nodes at least has answered.
func Status(w io.Writer, nodes []NodeStatus) error {
	printCluster(w, nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNODE\tROLE\tHEALTH\tLAST SEQ\tBEHIND\tTIP\tFILES\tVERSION\tLEVELS\tAPI")
	last := newest(nodes)
	var members []*api.MemberStatus
	listed, votes := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		if n.Err != nil {
			continue
		}
		listed[n.Status.NodeId] = true
		if len(members) == 0 {
			members = n.Status.Members
		}
	}
	for _, m := range members {
		votes[m.NodeId] = m.Voter
	}
	for _, n := range nodes {
		if n.Err == nil {
			fmt.Fprintln(t, row(n, last, votes[n.Status.NodeId]))
		}
	}
	for _, m := range members {
		if !listed[m.NodeId] {
			fmt.Fprintf(t, "%s\t%s\tno answer (gossip: %s)\t\t\t\t\t%s\t%s\n", m.NodeId, role(m), m.Gossip, Build(m.Version, m.LowestLevel, m.HighestLevel), m.ApiAddress)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range nodes {
		switch {
		case n.Err != nil:
			fmt.Fprintf(w, "\n%s: %v\n", n.Address, n.Err)
		case n.Status.NotReady != "":
			fmt.Fprintf(w, "\n%s is not ready: %s\n", n.Status.NodeId, n.Status.NotReady)
		}
	}
	return nil
}

// newest is the status that has come farthest.
func newest(nodes []NodeStatus) *api.GetStatusResponse {
	answered := slices.DeleteFunc(slices.Clone(nodes), func(n NodeStatus) bool { return n.Err != nil })
	return slices.MaxFunc(answered, func(a, b NodeStatus) int { return cmp.Compare(a.Status.LastSeq, b.Status.LastSeq) }).Status
}

// printCluster writes what holds for the whole cluster.
func printCluster(w io.Writer, nodes []NodeStatus) {
	s := newest(nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "cluster\t%s\n", cmp.Or(s.ClusterId, "not founded yet"))
	fmt.Fprintf(t, "leader\t%s (term %d)\n", cmp.Or(s.LeaderId, "none"), s.RaftTerm)
	stream := "empty"
	if s.LastSeq > 0 {
		stream = fmt.Sprintf("seq %s to %s, the last at %s", Count(s.OldestSeq), Count(s.LastSeq),
			time.Unix(0, s.LastTime).Format("2006-01-02 15:04:05 MST"))
	}
	fmt.Fprintf(t, "stream\t%s\n", stream)
	fmt.Fprintf(t, "topics\t%s in %s partitions\n", Count(s.Topics), Count(s.Partitions))
	fmt.Fprintf(t, "producers\t%s remembered\n", Count(s.Producers))
	held := ""
	for _, n := range nodes {
		held = cmp.Or(held, n.Status.GetLevel().GetHeld())
	}
	fmt.Fprintf(t, "log level\t%s\n", Level(s.Level.GetInUse(), held))
}

// Level is the level of the log, and why it is no higher one.
func Level(inUse uint32, held string) string {
	switch {
	case inUse == 0:
		return "not known"
	case held != "":
		return fmt.Sprintf("%d; %s", inUse, held)
	}
	return fmt.Sprint(inUse)
}

// Build is two cells: the version that a node runs, and the levels of the log that it reads.
func Build(version string, lowest, highest uint32) string {
	if highest == 0 {
		return cmp.Or(version, "-") + "\t-"
	}
	return fmt.Sprintf("%s\t%d-%d", cmp.Or(version, "-"), lowest, highest)
}

// row is a node's line: behind counts messages that another node has already. Why a node
// is not ready is too long for it, and stands below.
func row(n NodeStatus, last *api.GetStatusResponse, votes bool) string {
	s := n.Status
	health, does := "ready", s.State
	if s.NotReady != "" {
		health = "not ready"
	}
	if s.State == "follower" && !votes {
		does = "non-voter" // to Raft it is a follower as any other
	}
	files := fmt.Sprintf("%s segments, %s stores (%s)", Count(s.History.GetSegments()), Count(s.History.GetStores()), Bytes(s.History.GetBytes()))
	if missing := s.History.GetMissingFiles(); missing > 0 {
		files += fmt.Sprintf(", %d missing", missing) + coming(s.Fetch)
	}
	switch c := s.Scrub; {
	case c.GetUnreadFiles() > 0:
		files += fmt.Sprintf(", %s of %s verified", Count(c.Files-c.UnreadFiles), Count(c.Files))
	case c.GetReadSince() > 0:
		files += ", verified since " + time.Unix(0, c.ReadSince).Format("2006-01-02 15:04")
	}
	if n := s.Scrub.GetBadFiles(); n > 0 {
		files += fmt.Sprintf(", %s found bad, the last at %s", Count(n), time.Unix(0, s.Scrub.LastBadTime).Format("2006-01-02 15:04"))
	}
	if s.History.GetPlan() > 0 {
		files += ", compacting"
	}
	tip := fmt.Sprintf("%s of %s", Bytes(s.Tip.GetBytes()), Bytes(s.Tip.GetCapacityBytes()))
	if from := s.Tip.GetFillFromSeq(); from > 0 {
		tip += fmt.Sprintf(", refill at %d %%", 100*(s.Tip.FillAtSeq+1-from)/max(s.LastSeq+1-min(from, s.LastSeq), 1))
	}
	return strings.Join([]string{s.NodeId, does, health, Count(s.LastSeq), Count(last.LastSeq - s.LastSeq), tip, files,
		Build(s.Version, s.Level.GetLowest(), s.Level.GetHighest()), n.Address}, "\t")
}

// coming is how far a node is with fetching what it lacks.
func coming(f *api.FetchStatus) string {
	if f.GetActiveFiles() == 0 || f.AllBytes == 0 {
		return ""
	}
	left := f.MissingBytes - min(f.PartialBytes, f.MissingBytes)
	s := fmt.Sprintf(" (%d %% are here, %s to come at %s/s", 100*(f.AllBytes-left)/f.AllBytes, Bytes(left), Bytes(f.Rate))
	if f.LeftNanos > 0 {
		s += fmt.Sprintf(", %v left", time.Duration(f.LeftNanos).Round(time.Second))
	}
	return s + ")"
}

func role(m *api.MemberStatus) string {
	switch {
	case m.Leader:
		return "leader"
	case m.Voter:
		return "follower"
	default:
		return "non-voter"
	}
}
