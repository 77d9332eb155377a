// Package retaining is a leader's duty to let go what the retention of the stream, and the
// rules of its subtrees, do not keep: it looks what has expired, and of which files nothing is
// left, and puts that into the log.
package retaining

import (
	"context"
	"fmt"
	"time"

	"chorale/raftfsm"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/retention"
	"chorale/segments"
	"chorale/segments/format"
	"chorale/topic"

	"github.com/hashicorp/go-hclog"
)

// every is how often a leader looks for what has expired.
const every = time.Second

// Options wire a Keeper.
type Options struct {
	State   *raftfsm.FSM
	History *segments.Log
	Topics  *topic.Table
	// Command puts a command through the log.
	Command func(context.Context, []byte) (raftfsm.Result, error)
	Log     hclog.Logger
}

// Keeper looks for what has expired. For one goroutine.
type Keeper struct {
	o Options
	// cuts are the times before which the rules were looked through, by filter.
	cuts map[string]int64
	// volumes are what ranges of files hold of subtrees: of this look, and of the one before.
	volumes, before map[volume]int64
	remains         remains
}

// volume names what a range holds of a subtree, as long as no floor within it moves.
type volume struct {
	first, last uint64
	filter      string
	floors      string
}

// New is a leader's duty, for one term.
func New(o Options) *Keeper {
	volumes := func(h segments.Hash) ([]format.TopicVolume, error) { return o.History.Volumes([]segments.Hash{h}) }
	return &Keeper{o: o, cuts: map[string]int64{}, remains: remains{volumes: volumes, name: o.Topics.Name}}
}

// Run proposes what has expired, until ctx ends. What is refused is looked at again.
func (k *Keeper) Run(ctx context.Context) {
	for {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		now := max(k.o.State.View().LastTime, time.Now().UnixNano())
		k.ranges(ctx, now)
		k.subtrees(ctx, now)
		k.files(ctx)
	}
}

// ranges lets go what the retention of the whole stream does not keep.
func (k *Keeper) ranges(ctx context.Context, now int64) {
	m := k.o.History.Manifest()
	oldest := k.o.State.View().Retention.Oldest(m, now)
	if oldest <= m.Oldest() {
		return
	}
	if k.put(ctx, "an expiry", raftfsm.EncodeExpire(raftfsm.Expiry{Time: now, Oldest: oldest})) {
		k.o.Log.Info("messages expired", "from", m.Oldest(), "oldest", oldest)
	}
}

// subtrees lets floors rise, all that are due in one command.
func (k *Keeper) subtrees(ctx context.Context, now int64) {
	s := k.o.State.Kept()
	rise := kept.Rise{Rules: s.Rules.Number, Time: now}
	k.before, k.volumes = k.volumes, map[volume]int64{}
	cuts := map[string]int64{}
	for i, rule := range s.Rules.List {
		floor, err := k.byBytes(ctx, rule, s.Floors)
		if err == nil && rule.Age > 0 {
			cuts[rule.Filter] = rule.Cut(now)
			if cuts[rule.Filter] != k.cuts[rule.Filter] {
				var after uint64
				after, err = k.o.History.SeekTime(cuts[rule.Filter])
				floor = max(floor, after+1)
			}
		}
		if err != nil { // of a file that is not here: it is being fetched
			k.o.Log.Debug("what has expired of a subtree is not known yet", "filter", rule.Filter, "error", err)
			delete(cuts, rule.Filter)
			continue
		}
		// Behind the start of the stream there is nothing, of whatever age.
		if floor > max(s.Floors.Of(rule.Filter), k.o.History.Oldest()) {
			rise.Floors = append(rise.Floors, kept.RuleFloor{Rule: uint32(i), Seq: floor})
		}
	}
	if len(rise.Floors) > 0 {
		if !k.put(ctx, "a rise of floors", raftfsm.EncodeFloors(rise)) {
			return
		}
		k.o.Log.Debug("messages of subtrees expired", "floors", len(rise.Floors))
	}
	k.cuts = cuts
}

// files drops those of which floors have left nothing, once all nodes know how.
func (k *Keeper) files(ctx context.Context) {
	if k.o.State.View().Level.Level < level.Dropping {
		return
	}
	plan, _ := k.o.State.Plan()
	gone := k.remains.gone(k.o.History.Manifest(), k.o.State.Floors(), plan.Index, plan.Inputs)
	if len(gone) > 0 && k.put(ctx, "a drop of files", raftfsm.EncodeDrop(raftfsm.Drop{Files: gone})) {
		k.o.Log.Info("files dropped of which nothing was left", "files", len(gone))
	}
}

// byBytes is the start of the oldest range that stays by the bytes of a rule, 0 if that has
// none or everything stays.
func (k *Keeper) byBytes(ctx context.Context, rule retention.Rule, floors *retention.Floors) (uint64, error) {
	if rule.Bytes == 0 {
		return 0, nil
	}
	ranges := k.o.History.Manifest().Ranges()
	least := floors.Of(rule.Filter)
	for i, behind := len(ranges)-1, int64(0); i >= 0 && ranges[i].Last >= least; i-- {
		if behind >= rule.Bytes {
			return ranges[i].Last + 1, nil
		}
		n, err := k.volume(rule.Filter, ranges[i], floors)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, err
		}
		behind += n
	}
	return 0, nil
}

// volume is how many bytes of records a range holds of a subtree at least, without what has
// gone.
func (k *Keeper) volume(filter string, r segments.Range, floors *retention.Floors) (int64, error) {
	f, err := topic.ParseFilters(filter)
	if err != nil {
		return 0, err
	}
	key := volume{r.First, r.Last, filter, within(f, r, floors)}
	n, known := k.before[key]
	if !known {
		sel := topic.NewSelection(k.o.Topics, f)
		left := segments.Floors{Highest: floors.Highest(), Of: func(id uint32) uint64 { return floors.Of(k.o.Topics.Name(id)) }}
		err = k.o.History.Explain(sel, left, r.First-1, r.Last, func(p segments.Plan) error {
			n += int64(p.Bytes.Low)
			return nil
		})
	}
	if err == nil {
		k.volumes[key] = n
	}
	return n, err
}

// within says where the floors below a filter stand in a range.
func within(f *topic.Filters, r segments.Range, floors *retention.Floors) string {
	if floors.Highest() <= r.First {
		return ""
	}
	var text []byte
	for _, one := range floors.List() {
		if name := one.Name(); one.Seq > r.First && f.Match(name) {
			text = fmt.Appendf(text, "%s %d\n", one.Filter, min(one.Seq, r.Last+1))
		}
	}
	return string(text)
}

// put proposes a command; false if it had no effect.
func (k *Keeper) put(ctx context.Context, what string, command []byte) bool {
	result, err := k.o.Command(ctx, command)
	switch {
	case err != nil:
		k.o.Log.Debug(what+" was not committed", "error", err)
	case result.Err != nil:
		k.o.Log.Debug(what+" was refused", "error", result.Err)
	}
	return err == nil && result.Err == nil
}
