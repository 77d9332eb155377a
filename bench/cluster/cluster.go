// Package cluster measures real clusters: three processes on loopback with their
// files, and beside them, round by round, three processes of nothing but
// hashicorp/raft, which is what replication costs on the machine at hand.
package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"chorale/internal/procs"
)

// Options of a run.
type Options struct {
	Binary  string        // chorale itself
	Dir     string        // for the data of the clusters; what is made there is removed
	Rounds  int           // each measures everything once
	Load    time.Duration // of one load
	Kills   int           // of the leader, in the last round
	Step    func(string)  // is told what runs
	RawArgs func(RawRaft) []string
	// Profile is the folder that gets CPU profiles of the publishing loads; none
	// are taken if it is empty.
	Profile string
}

// Row is one measurement: the medians over the rounds.
type Row struct {
	Name string `json:"name"`
	// Messages acknowledged, or recovered, a second.
	PerSecond float64 `json:"messages_per_second,omitempty"`
	MBs       float64 `json:"payload_mb_per_second,omitempty"`
	P50Millis float64 `json:"p50_ms,omitempty"`
	P99Millis float64 `json:"p99_ms,omitempty"`
	// CPUMicros is the processor time a message: of all nodes and the load, or in the
	// rows of recoveries of the one node.
	CPUMicros float64 `json:"cpu_us_per_message,omitempty"`
	// Ratio to the row that it is compared with: of rates, p50, p99 or CPU time.
	Ratio float64 `json:"ratio,omitempty"`
}

// sample is one measurement of one round.
type sample struct{ perSecond, mbs, p50, p99, cpu float64 }

// Report is what a run found.
type Report struct {
	Rows []Row `json:"rows"`
}

const (
	rawEntry    = 256 << 10
	rawInFlight = 8
)

// The rows, in the order in which they are shown. Each may be compared with another.
var rows = []struct {
	name  string
	base  string // the row to compare with
	ratio func(row, base Row) float64
}{
	{name: "raw raft, 256 KiB entries of 128 B"},
	{"publish 128 B, 1 publisher", "raw raft, 256 KiB entries of 128 B", byRate},
	{"publish 128 B, 4 publishers", "raw raft, 256 KiB entries of 128 B", byRate},
	{name: "raw raft, 256 KiB entries of 1 KiB"},
	{"publish 1 KiB, 1 publisher", "raw raft, 256 KiB entries of 1 KiB", byRate},
	{"publish 1 KiB, 4 publishers", "raw raft, 256 KiB entries of 1 KiB", byRate},
	{name: "raw raft, one at a time"},
	{"publish 128 B, one at a time", "raw raft, one at a time", byP50},
	{name: "recover everything"},
	{name: "kill of the leader to next ack"},
	{name: "publish 5,000/s alone"},
	{"publish 5,000/s beside the storm", "publish 5,000/s alone", byP99},
	{name: "recover 1 % from one node, 1 client"},
	{"recover 1 % from one node, 32 clients: the storm", "recover 1 % from one node, 1 client", byCPU},
	{"recover 1 % from one node, 32 clients, beside a publisher", "recover 1 % from one node, 32 clients: the storm", byRate},
}

func byRate(row, base Row) float64 { return over(row.PerSecond, base.PerSecond) }
func byP50(row, base Row) float64  { return over(row.P50Millis, base.P50Millis) }
func byP99(row, base Row) float64  { return over(row.P99Millis, base.P99Millis) }
func byCPU(row, base Row) float64  { return over(row.CPUMicros, base.CPUMicros) }

// over is the ratio, 0 where there is none.
func over(value, base float64) float64 {
	if base == 0 {
		return 0
	}
	return value / base
}

// Run measures. Everything it starts has ended when it returns.
func Run(ctx context.Context, o Options) (Report, error) {
	samples := map[string][]sample{}
	for round := range o.Rounds {
		o.Step(fmt.Sprintf("round %d of %d: raw raft", round+1, o.Rounds))
		if err := o.raw(ctx, samples); err != nil {
			return Report{}, err
		}
		kills := 0
		if round == o.Rounds-1 {
			kills = o.Kills
		}
		o.Step(fmt.Sprintf("round %d of %d: chorale", round+1, o.Rounds))
		if err := o.chorale(ctx, samples, kills); err != nil {
			return Report{}, err
		}
	}
	return summarize(samples), nil
}

func summarize(samples map[string][]sample) Report {
	var r Report
	pick := func(list []sample, f func(sample) float64) float64 {
		var values []float64
		for _, s := range list {
			values = append(values, f(s))
		}
		return median(values)
	}
	at := map[string]Row{}
	for _, row := range rows {
		list := samples[row.name]
		out := Row{
			Name:      row.name,
			PerSecond: pick(list, func(s sample) float64 { return s.perSecond }),
			MBs:       pick(list, func(s sample) float64 { return s.mbs }),
			P50Millis: pick(list, func(s sample) float64 { return s.p50 }),
			P99Millis: pick(list, func(s sample) float64 { return s.p99 }),
			CPUMicros: pick(list, func(s sample) float64 { return s.cpu }),
		}
		if row.ratio != nil {
			out.Ratio = row.ratio(out, at[row.base])
		}
		at[row.name] = out
		r.Rows = append(r.Rows, out)
	}
	return r
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// pidsOf are the processes of a running cluster and this one, which makes the load.
func pidsOf(c *procs.Cluster) []int {
	pids := []int{os.Getpid()}
	for _, n := range c.Nodes {
		pids = append(pids, n.PID())
	}
	return pids
}

// cpu is the processor time of some processes together.
func cpu(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += procs.CPU(pid)
	}
	return sum
}

// raw runs a cluster of nothing but Raft through its loads.
func (o Options) raw(ctx context.Context, samples map[string][]sample) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "raw-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ports, err := procs.FreePorts(6)
	if err != nil {
		return err
	}
	var pids []int
	for i := range 3 {
		n := RawRaft{Dir: filepath.Join(dir, fmt.Sprint(i)), Addr: ports[i], Peers: ports[:3], Control: ports[3+i]}
		cmd := exec.Command(o.Binary, o.RawArgs(n)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		pids = append(pids, cmd.Process.Pid)
		defer func() {
			cmd.Process.Signal(syscall.SIGKILL)
			cmd.Wait()
		}()
	}
	lead, err := rawLeader(ctx, ports[3:])
	if err != nil {
		return err
	}
	defer lead.Close()
	for _, bytes := range []int{128, 1024} {
		begun := cpu(pids)
		a, err := lead.ask(Load{EntryBytes: rawEntry, InFlight: rawInFlight, Nanoseconds: int64(o.Load)})
		if err != nil {
			return err
		}
		rate := float64(a.Entries) / time.Duration(a.Nanoseconds).Seconds()
		name := rows[0].name
		if bytes == 1024 {
			name = rows[3].name
		}
		samples[name] = append(samples[name], sample{
			perSecond: rate * float64(rawEntry/bytes), mbs: rate * rawEntry / 1e6,
			p50: millis(time.Duration(a.P50)), p99: millis(time.Duration(a.P99)),
			cpu: micros(cpu(pids)-begun) / float64(a.Entries*uint64(rawEntry/bytes)),
		})
	}
	a, err := lead.ask(Load{EntryBytes: 128, InFlight: 1, Nanoseconds: int64(o.Load)})
	if err != nil {
		return err
	}
	samples[rows[6].name] = append(samples[rows[6].name], sample{p50: millis(time.Duration(a.P50)), p99: millis(time.Duration(a.P99))})
	return nil
}

// control is the connection to one raw node.
type control struct{ net.Conn }

func (c control) ask(l Load) (a Answer, err error) {
	if err = binary.Write(c, binary.LittleEndian, l); err == nil {
		err = binary.Read(c, binary.LittleEndian, &a)
	}
	if err == nil && a.Entries == 0 {
		err = errors.New("raw raft: the leader changed during a load")
	}
	return a, err
}

// rawLeader connects to every node until one of them leads.
func rawLeader(ctx context.Context, addrs []string) (control, error) {
	var open []control
	for len(open) < len(addrs) {
		conn, err := net.Dial("tcp", addrs[len(open)])
		if err == nil {
			open = append(open, control{conn})
			continue
		}
		select {
		case <-ctx.Done():
			return control{}, errors.Join(err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	for ctx.Err() == nil {
		for _, c := range open {
			if _, err := c.ask(Load{EntryBytes: 8, InFlight: 1, Nanoseconds: int64(time.Millisecond)}); err == nil {
				return c, nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return control{}, ctx.Err()
}

// chorale runs a cluster of the product through its loads.
func (o Options) chorale(ctx context.Context, samples map[string][]sample, kills int) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "chorale-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var extra []string
	if o.Profile != "" {
		extra = append(extra, "--pprof")
	}
	c, err := procs.New(o.Binary, dir, 3, extra...)
	if err != nil {
		return err
	}
	defer c.Stop()
	defer func() {
		if err != nil {
			c.PrintLogs(os.Stderr)
		}
	}()
	if err := c.Start(ctx); err != nil {
		return err
	}
	pids := pidsOf(c)
	took, err := oneAtATime(ctx, c, 128, o.Load)
	if err != nil {
		return err
	}
	add := func(name string, s sample) { samples[name] = append(samples[name], s) }
	add(rows[7].name, sample{p50: millis(took.quantile(0.5)), p99: millis(took.quantile(0.99))})
	for _, l := range []struct {
		row, publishers, bytes int
	}{{1, 1, 128}, {2, 4, 128}, {4, 1, 1024}, {5, 4, 1024}} {
		var rate float64
		var took latencies
		begun := cpu(pids)
		err := o.profiled(ctx, c, rows[l.row].name, func() (err error) {
			rate, took, err = throughput(ctx, c, l.publishers, l.bytes, o.Load)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", rows[l.row].name, err)
		}
		add(rows[l.row].name, sample{
			perSecond: rate, mbs: rate * float64(l.bytes) / 1e6,
			p50: millis(took.quantile(0.5)), p99: millis(took.quantile(0.99)),
			cpu: micros(cpu(pids)-begun) / float64(len(took)),
		})
	}
	for _, n := range c.Nodes {
		messages, took, err := recoverAll(ctx, n)
		if err != nil {
			return fmt.Errorf("recovery from %s: %w", n.Name, err)
		}
		add(rows[8].name, sample{perSecond: float64(messages) / took.Seconds()})
	}
	if err := o.storm(ctx, c, add); err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	return kill(ctx, c, kills, add)
}

// kill measures the gap that the end of a leader makes.
func kill(ctx context.Context, c *procs.Cluster, kills int, add func(string, sample)) error {
	var gaps latencies
	for range kills {
		d, err := failover(ctx, c)
		if err != nil {
			return fmt.Errorf("failover: %w", err)
		}
		gaps.add(d)
	}
	if kills > 0 {
		add(rows[9].name, sample{p50: millis(gaps.quantile(0.5)), p99: millis(gaps.quantile(0.99))})
	}
	return nil
}

// WriteTable prints the report for a person.
func (r Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "messages/s\tMB/s\tp50 ms\tp99 ms\tCPU us\tratio\t  \t")
	for _, row := range r.Rows {
		cell := func(v float64, format string) string {
			if v == 0 {
				return ""
			}
			return fmt.Sprintf(format, v)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", cell(row.PerSecond, "%.0f"), cell(row.MBs, "%.1f"),
			cell(row.P50Millis, "%.2f"), cell(row.P99Millis, "%.2f"), cell(row.CPUMicros, "%.2f"), cell(row.Ratio, "%.2f"), row.Name)
	}
	return t.Flush()
}

// WriteJSON prints the report for a program.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Args are the arguments of a raw node behind the command that runs it.
func (n RawRaft) Args() []string {
	return []string{"--dir", n.Dir, "--addr", n.Addr, "--control", n.Control, "--peers", strings.Join(n.Peers, ",")}
}
