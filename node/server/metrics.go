package server

import (
	"errors"
	"time"

	"chorale/node/engine"
	"chorale/node/turns"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are counted as calls happen; what the node is, is asked from the engine
// at each scrape.
type metrics struct {
	registry      *prometheus.Registry
	batches       *prometheus.CounterVec
	batchBytes    prometheus.Counter
	ack           prometheus.Histogram
	messages      prometheus.Counter
	recordBytes   prometheus.Counter
	fileBytes     prometheus.Counter
	subscriptions prometheus.Gauge
	turnWait      prometheus.Histogram
	panics        prometheus.Counter
}

const namespace = "chorale"

func newMetrics(o Options) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "publish_batches_total",
			Help: "Batches that clients and other nodes sent here, by what became of them: ok, invalid, unavailable, unknown.",
		}, []string{"outcome"}),
		batchBytes: counter("publish_bytes_total", "Encoded bytes of those batches."),
		ack: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "publish_ack_seconds",
			Help:    "From the arrival of a batch to its answer, for batches that were taken.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		messages:    counter("delivered_messages_total", "Messages sent to subscribers."),
		recordBytes: counter("delivered_bytes_total", "Encoded bytes of those messages."),
		fileBytes:   counter("file_sent_bytes_total", "Bytes of data files sent to other nodes."),
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "subscriptions", Help: "Open subscriptions.",
		}),
		turnWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "recovery_turn_wait_seconds",
			Help:    "How long recoveries waited for their turn to read, each time that they were to take one: while messages are published.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 10),
		}),
		panics: counter("handler_panics_total", "Requests that met a bug of the node."),
	}
	m.registry.MustRegister(m.batches, m.batchBytes, m.ack, m.messages, m.recordBytes, m.fileBytes, m.subscriptions, m.turnWait, m.panics,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		stateCollector{o}, memoryCollector{"/proc/self/status"})
	return m
}

// shows adds how recoveries are slowed down, which is asked at each scrape.
func (m *metrics) shows(t *turns.Turns) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
	}
	m.registry.MustRegister(
		gauge("recovery_turns_waiting", "Recoveries that wait for their turn to read.", func() float64 { return float64(t.Waiting()) }),
		gauge("recovery_pause_turns", "Pause behind each turn of a recovery, in turns; 0 where none are needed.", t.Pause))
}

func (m *metrics) waited(d time.Duration) { m.turnWait.Observe(d.Seconds()) }

func (m *metrics) published(bytes int, took time.Duration, err error) {
	outcome := "unknown"
	switch {
	case err == nil:
		outcome = "ok"
		m.ack.Observe(took.Seconds())
	case errors.Is(err, engine.ErrInvalid):
		outcome = "invalid"
	case errors.Is(err, engine.ErrUnavailable):
		outcome = "unavailable"
	}
	m.batches.WithLabelValues(outcome).Inc()
	m.batchBytes.Add(float64(bytes))
}

func (m *metrics) delivered(count, bytes int) {
	m.messages.Add(float64(count))
	m.recordBytes.Add(float64(bytes))
}

// stateCollector asks the engine at each scrape.
type stateCollector struct{ options Options }

// stateMetric is one figure of the engine's status.
type stateMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(engine.Status) float64
}

func gauge(name, help string, of func(engine.Status) float64) stateMetric {
	return stateMetric{prometheus.NewDesc(namespace+"_"+name, help, nil, nil), prometheus.GaugeValue, of}
}

func counter(name, help string, of func(engine.Status) float64) stateMetric {
	return stateMetric{prometheus.NewDesc(namespace+"_"+name, help, nil, nil), prometheus.CounterValue, of}
}

var stateMetrics = []stateMetric{
	gauge("last_seq", "Newest message applied here.", func(s engine.Status) float64 { return float64(s.View.LastSeq) }),
	gauge("oldest_seq", "Oldest message kept.", func(s engine.Status) float64 { return float64(s.History.Oldest) }),
	gauge("topics", "Topics of the stream.", func(s engine.Status) float64 { return float64(s.Topics) }),
	gauge("producers", "Idempotent producers remembered.", func(s engine.Status) float64 { return float64(s.View.Producers) }),
	gauge("tip_floor_seq", "Oldest message in the tip.", func(s engine.Status) float64 { return float64(s.Tip.Floor) }),
	gauge("tip_head_seq", "Newest message in the tip.", func(s engine.Status) float64 { return float64(s.Tip.Head) }),
	gauge("tip_bytes", "Bytes of messages in the tip.", func(s engine.Status) float64 { return float64(s.Tip.Bytes) }),
	gauge("tip_capacity_bytes", "Bytes that the tip has room for.", func(s engine.Status) float64 { return float64(s.Tip.Capacity) }),
	gauge("tip_fill_from_seq", "While the tip is filled behind a restart, the message that it will begin with; else 0.", func(s engine.Status) float64 { return float64(s.Fill.From) }),
	gauge("tip_fill_at_seq", "While the tip is filled behind a restart, how far that is; else 0.", func(s engine.Status) float64 { return float64(s.Fill.At) }),
	gauge("tip_pool_blocks", "Index blocks of the pool.", func(s engine.Status) float64 { return float64(s.Tip.Blocks) }),
	gauge("tip_pool_free_blocks", "Index blocks of the pool that are free.", func(s engine.Status) float64 { return float64(s.Tip.FreeBlocks) }),
	gauge("history_files", "Files of the manifest.", func(s engine.Status) float64 { return float64(s.History.Files) }),
	gauge("history_stores", "Stores among those files.", func(s engine.Status) float64 { return float64(s.History.Stores) }),
	gauge("history_plan", "Raft index of the plan that is being built, 0 for none.", func(s engine.Status) float64 { return float64(s.Plan) }),
	gauge("history_bytes", "Bytes of those files.", func(s engine.Status) float64 { return float64(s.History.Bytes) }),
	gauge("history_missing_files", "Files of the manifest that are not on this node.", func(s engine.Status) float64 { return float64(s.History.Missing) }),
	gauge("history_durable_seq", "Last message that lies in files of this node.", func(s engine.Status) float64 { return float64(s.History.DurableEnd) }),
	gauge("history_memory_bytes", "Memory of messages that are in no file of the manifest yet.", func(s engine.Status) float64 { return float64(s.History.MemoryBytes) }),
	gauge("history_cache_bytes", "Memory of what was read from stores and is kept for others.", func(s engine.Status) float64 { return float64(s.History.CacheBytes) }),
	gauge("history_mismatches", "Files built here that differed from the cluster's.", func(s engine.Status) float64 { return float64(s.Mismatches) }),
	gauge("history_missing_bytes", "Bytes of those files that have not come.", func(s engine.Status) float64 { return float64(s.Fetch.MissingBytes - s.Fetch.PartialBytes) }),
	counter("fetch_files_total", "Data files that came from other nodes.", func(s engine.Status) float64 { return float64(s.Fetch.Files) }),
	counter("fetch_received_bytes_total", "Bytes of data files that came from other nodes.", func(s engine.Status) float64 { return float64(s.Fetch.Received) }),
	counter("fetch_dropped_bytes_total", "Bytes of these that were thrown away, because a copy was bad or the file not wanted any more.", func(s engine.Status) float64 { return float64(s.Fetch.Dropped) }),
	counter("scrub_bytes_total", "Bytes of data files read to verify them.", func(s engine.Status) float64 { return float64(s.Scrub.Bytes) }),
	gauge("scrub_bad_files", "Data files ever found bad or gone by reading them all.", func(s engine.Status) float64 { return float64(s.Scrub.Bad) }),
	gauge("scrub_due_files", "Data files that are to be read now.", func(s engine.Status) float64 { return float64(s.Scrub.Due) }),
	gauge("scrub_read_since_seconds", "Unix time since which every data file was read, 0 if one was not yet.", func(s engine.Status) float64 { return float64(unix(s.Scrub.Oldest)) / 1e9 }),
	gauge("raft_leader", "1 if this node leads.", func(s engine.Status) float64 { return one(s.State == "leader") }),
	gauge("raft_term", "Raft's term.", func(s engine.Status) float64 { return float64(s.Term) }),
	gauge("raft_last_index", "Last entry of the log.", func(s engine.Status) float64 { return float64(s.Last) }),
	gauge("raft_commit_index", "Last entry known to be committed.", func(s engine.Status) float64 { return float64(s.Commit) }),
	gauge("raft_applied_index", "Last entry given to the state machine.", func(s engine.Status) float64 { return float64(s.Applied) }),
}

var readyDesc = prometheus.NewDesc(namespace+"_ready", "1 if this node serves, and everything.", nil, nil)

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	out <- readyDesc
	for _, m := range stateMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, one(c.options.NotReady() == "" && c.options.Engine.Lacking() == ""))
	s := c.options.Engine.Status()
	for _, m := range stateMetrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(s))
	}
}
