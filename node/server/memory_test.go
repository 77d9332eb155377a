package server

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestMemoryMetrics(t *testing.T) {
	scrape := func(path string) string {
		registry := prometheus.NewRegistry()
		registry.MustRegister(memoryCollector{path})
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	path := filepath.Join(t.TempDir(), "status")
	text := "Name:\tchorale\nVmRSS:\t   300 kB\nRssAnon:\t     100 kB\nRssFile:\t     200 kB\nThreads:\t7\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := `# HELP chorale_resident_bytes Resident memory: own (heap, tip, stacks), or mapped files, the Raft log above all. Linux only.
# TYPE chorale_resident_bytes gauge
chorale_resident_bytes{of="files"} 204800
chorale_resident_bytes{of="own"} 102400
`
	if got := scrape(path); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := scrape(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("where the system does not tell:\n%s", got)
	}
}
