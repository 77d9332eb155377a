package server

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// memoryCollector tells apart what the resident memory of the process is. The Raft
// log is a mapped file: its pages count as resident, grow with the log until a
// snapshot cuts it, and are given back whenever the system wants them.
type memoryCollector struct{ status string } // /proc/self/status, or what a test has instead

var memoryDesc = prometheus.NewDesc(namespace+"_resident_bytes",
	"Resident memory: own (heap, tip, stacks), or mapped files, the Raft log above all. Linux only.", []string{"of"}, nil)

// Describe implements prometheus.Collector.
func (c memoryCollector) Describe(out chan<- *prometheus.Desc) { out <- memoryDesc }

// Collect implements prometheus.Collector. A system that does not tell has no such metrics.
func (c memoryCollector) Collect(out chan<- prometheus.Metric) {
	f, err := os.Open(c.status)
	if err != nil {
		return
	}
	defer f.Close()
	kinds := map[string]string{"RssAnon:": "own", "RssFile:": "files"}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || kinds[fields[0]] == "" || fields[2] != "kB" {
			continue
		}
		if kib, err := strconv.ParseFloat(fields[1], 64); err == nil {
			out <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, kib*1024, kinds[fields[0]])
		}
	}
}
