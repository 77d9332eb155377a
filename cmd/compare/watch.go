package compare

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"chorale/client"
)

// Watch is told how a comparison goes, by one call at a time.
type Watch struct {
	// Progress is told how many messages have been compared.
	Progress func(done int64)
	// Wait is told why nothing comes from a side.
	Wait func(client.Wait)

	mu   sync.Mutex // both sides may wait
	stop func(error)
}

// How long a side is waited for: a file that a node lacks comes from its peers within
// seconds, or it is for a person to see why not; a node that is started again takes longer.
const (
	forFile = 5 * time.Second
	forNode = time.Minute
)

// patience is how long a wait of this reason may last.
func patience(why error) time.Duration {
	if errors.Is(why, client.ErrMissing) {
		return forFile
	}
	return forNode
}

// gaveUp is why a comparison ended before its end.
type gaveUp struct {
	side string
	wait client.Wait
}

// Error says what was waited for, and what to do.
func (g *gaveUp) Error() string {
	where := g.side
	if g.wait.Node != "" {
		where = g.wait.Node
	}
	what := fmt.Sprintf("the comparison is not complete: nothing came for %s from the node at %s: %v", g.wait.For.Truncate(time.Second), where, g.wait.Err)
	if errors.Is(g.wait.Err, client.ErrMissing) {
		return what + "; name other nodes of that cluster too, or compare again when it has the file: chorale status says how far it is"
	}
	return what + "; see what is wrong there, or name other nodes of that cluster too"
}

// Unwrap is what was wrong with the node.
func (g *gaveUp) Unwrap() error { return g.wait.Err }

// of is for the subscription to a side.
func (w *Watch) of(s Side) func(client.Wait) {
	return func(told client.Wait) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.Wait(told)
		if told.Err != nil && told.For >= patience(told.Err) {
			w.stop(&gaveUp{s.Name, told})
		}
	}
}
