package upkeep

import (
	"context"
	"io"
	"time"

	"chorale/segments"
)

// What damaged copies do not make up is tried again after mendMin to mendMax, twice as long
// each time: it costs what is read of the copies of others.
const mendMin, mendMax = time.Second, time.Hour

// unmended is a file that damaged copies do not make up.
type unmended struct {
	why   error
	pause time.Duration
	until time.Time
}

// mend puts a file together from damaged copies, that of this node and those of others,
// where nobody has a sound one; or builds a store again of whose layer others are missing too.
func (k *Keeper) mend(ctx context.Context, meta segments.FileMeta) (done bool) {
	if !k.mendDue(meta.Hash) {
		return false
	}
	others := func(m segments.FileMeta) []io.ReaderAt { return k.fetcher.Remains(ctx, m) }
	err := k.o.History.Mend(meta, others(meta))
	if err == nil {
		k.o.Log.Info("a missing file was put together from damaged copies", "file", meta.Name())
		return true
	}
	if meta.Kind == segments.KindStore && k.rebuild(meta, others) == nil {
		k.o.Log.Info("rebuilt a missing store, with what damaged copies say of the others of its layer", "file", meta.Name())
		return true
	}
	if ctx.Err() == nil {
		k.o.Log.Debug("damaged copies do not make a file up", "file", meta.Name(), "error", err)
		k.notMended(meta.Hash, err)
	}
	return false
}

func (k *Keeper) mendDue(h segments.Hash) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.unmended[h]
	return u == nil || !time.Now().Before(u.until)
}

func (k *Keeper) notMended(h segments.Hash, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.unmended[h]
	if u == nil {
		u = &unmended{pause: mendMin / 2}
		k.unmended[h] = u
	}
	u.why, u.pause = why, min(2*u.pause, mendMax)
	u.until = time.Now().Add(u.pause)
}
