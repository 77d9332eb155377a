package startup

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"chorale/internal/procs"
)

// live asks a node for a collection of garbage, and tells what of its heap is alive then,
// and what of that is neither messages that wait for their file nor the cache of stores.
func live(ctx context.Context, n *procs.Node) (heap, state int64, err error) {
	if _, err := get(ctx, n, "/debug/pprof/heap?gc=1"); err != nil {
		return 0, 0, err
	}
	text, err := get(ctx, n, "/metrics")
	if err != nil {
		return 0, 0, err
	}
	figures := make(map[string]int64)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = int64(v)
		}
	}
	const memory, cache, alloc = "chorale_history_memory_bytes", "chorale_history_cache_bytes", "go_memstats_heap_alloc_bytes"
	for _, name := range []string{memory, cache, alloc} {
		if _, ok := figures[name]; !ok {
			return 0, 0, fmt.Errorf("the metrics of %s do not tell %s", n.Name, name)
		}
	}
	return figures[alloc], figures[alloc] - figures[memory] - figures[cache], nil
}

func get(ctx context.Context, n *procs.Node, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of %s: %s", path, n.Name, answer.Status)
	}
	return string(b), err
}
