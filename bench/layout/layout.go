// Package layout compares ways to lay topics out over stores: it runs the
// algorithms of package compactor on the volumes of a stream and shows what each
// costs its readers, as a table, as JSON, and as a page with the trees side by
// side.
package layout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"chorale/compactor"
	"chorale/internal/tsv"
)

// A message counts with its size, at most messageCap, and what a record adds.
const (
	messageCap   = 1 << 20
	messageExtra = 32
)

// Volumes sums a sample stream by topic. A malformed line is an error that says
// its number.
func Volumes(ctx context.Context, r io.Reader) ([]compactor.Volume, error) {
	in, err := tsv.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	index := make(map[string]int)
	var volumes []compactor.Volume
	for ctx.Err() == nil {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return volumes, nil
		}
		if err != nil {
			return nil, err
		}
		i, known := index[line.Topic]
		if !known {
			i = len(volumes)
			index[line.Topic] = i
			volumes = append(volumes, compactor.Volume{Topic: line.Topic})
		}
		volumes[i].Messages++
		volumes[i].Bytes += uint64(min(line.Size, messageCap)) + messageExtra
	}
	return nil, ctx.Err()
}

// The algorithms, in the order in which they are shown.
const (
	Heuristic  = "fixed3"
	Partition  = "partition"
	Topic      = "topic"
	Adaptive   = "adaptive"
	LowerBound = "lower_bound"
)

// Layout is one algorithm's answer and how it looks to readers. The lower bound
// has no split: only Stores and TopicWaste are set.
type Layout struct {
	Name       string
	Stores     int
	TopicWaste float64 // bytes, over all topics
	Split      *compactor.Split
	// Whole stores read, and through the block index.
	Topics, Subtrees               compactor.Lens
	TopicsIndexed, SubtreesIndexed compactor.Lens
}

// Comparison is what all algorithms make of one stream.
type Comparison struct {
	Stream  string
	Tree    *compactor.Tree
	Layouts []Layout
}

// ParseBudget reads the number of stores: a count, or "fixed3" for as many as the
// heuristic opens.
func ParseBudget(s string, t *compactor.Tree) (int, error) {
	if s == Heuristic {
		return compactor.Fixed3(t).Stores, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("number of stores %q: want a count from 1, or %s for the number of the heuristic", s, Heuristic)
	}
	return n, nil
}

// Compare runs every algorithm; budget is what Adaptive and the bound may use.
// step is told before each what will run.
func Compare(ctx context.Context, stream string, t *compactor.Tree, budget int, step func(string)) (Comparison, error) {
	c := Comparison{Stream: stream, Tree: t}
	algorithms := []struct {
		name string
		run  func() compactor.Split
	}{
		{Heuristic, func() compactor.Split { return compactor.Fixed3(t) }},
		{Partition, func() compactor.Split { return compactor.PerPartition(t) }},
		{Topic, func() compactor.Split { return compactor.PerTopic(t) }},
		{Adaptive, func() compactor.Split { return compactor.Adaptive(t, budget) }},
	}
	for _, a := range algorithms {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		step(a.name)
		s := a.run()
		l := Layout{Name: a.name, Stores: s.Stores, Split: &s}
		l.Topics, l.Subtrees = compactor.Look(t, s, compactor.WholeStores)
		l.TopicsIndexed, l.SubtreesIndexed = compactor.Look(t, s, compactor.ThroughBlockIndex)
		l.TopicWaste = l.Topics.SumWaste
		c.Layouts = append(c.Layouts, l)
	}
	step(LowerBound)
	bound := compactor.LowerBound(t, budget)
	c.Layouts = append(c.Layouts, Layout{Name: LowerBound, Stores: min(budget, len(t.Topics)), TopicWaste: bound})
	return c, nil
}
