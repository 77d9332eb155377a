package tipbench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"chorale/internal/tsv"
	"chorale/message"
	"chorale/tip"
	"chorale/topic"
)

// ring is a filled tip, with what is needed to go on appending.
type ring struct {
	Ring
	tip   *tip.Tip
	table *topic.Table
	// held is how many messages of each topic are in the ring.
	held     []int
	messages int // of all
	buffers  [][]byte

	draw  func() uint32 // the next message's topic, for drawn messages
	plain message.Record
	last  []uint64 // seq of each topic's last message
	next  uint64
}

// batchMessages is how many messages are published at a time.
const batchMessages = 256

func fill(ctx context.Context, spec Ring, note func(done, total int64)) (*ring, error) {
	g := &ring{Ring: spec, tip: tip.New(spec.RingBytes), table: topic.NewTable(), next: 1}
	var err error
	if spec.Data != "" {
		err = g.fillFrom(ctx, note)
	} else {
		err = g.fillDrawn(ctx, note)
	}
	if err != nil {
		return nil, err
	}
	g.tip.Publish()
	g.count()
	return g, nil
}

// fillDrawn appends until the ring was filled and has gone round a tenth.
func (g *ring) fillDrawn(ctx context.Context, note func(done, total int64)) error {
	for p := range g.Partitions {
		for t := range g.Topics {
			g.table.Intern(fmt.Appendf(nil, "bench/p%d/t%d", p, t))
		}
	}
	g.last = make([]uint64, g.table.Len())
	g.plain = message.NewRecord(message.Draft{Payload: make([]byte, g.MessageBytes)}, 0, 1, 0, 1)
	g.draw = g.drawer(rand.New(rand.NewPCG(g.Seed, 1)))
	total := g.RingBytes + g.RingBytes/10
	for bytes := int64(0); bytes < total; bytes += int64(message.Stride(len(g.plain))) {
		if g.append(g.draw(), g.plain); g.next%(1<<16) == 0 {
			if note(bytes, total); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// drawer draws topics: a partition by its weight, kept for a run of messages, and
// any of its topics.
func (g *ring) drawer(rnd *rand.Rand) func() uint32 {
	upTo := make([]float64, g.Partitions) // cumulated weights
	sum := 0.0
	for i := range upTo {
		sum += math.Pow(float64(i+1), -g.Skew)
		upTo[i] = sum
	}
	left, partition := 0, 0
	return func() uint32 {
		if left--; left <= 0 {
			left = 1
			if g.Run > 1 {
				left += rnd.IntN(2*g.Run - 1)
			}
			partition = search(upTo, rnd.Float64()*sum)
		}
		return uint32(partition*g.Topics + rnd.IntN(g.Topics))
	}
}

// search is the first index whose value is above x.
func search(upTo []float64, x float64) int {
	lo, hi := 0, len(upTo)-1
	for lo < hi {
		if mid := (lo + hi) / 2; upTo[mid] > x {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// append stamps a record and appends it.
func (g *ring) append(id uint32, r message.Record) {
	r.Stamp(id, g.next, g.last[id], 1)
	g.tip.Append(g.table.Partition(id), r)
	g.last[id] = g.next
	if g.next++; g.next%batchMessages == 0 {
		g.tip.Publish()
	}
}

func (g *ring) fillFrom(ctx context.Context, note func(done, total int64)) error {
	f, err := os.Open(g.Data)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := tsv.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", g.Data, err)
	}
	defer lines.Close()
	var payload []byte
	for {
		line, err := lines.Next()
		if err == io.EOF {
			break
		}
		if bad := (*tsv.LineError)(nil); errors.As(err, &bad) {
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", g.Data, err)
		}
		id, fresh := g.table.Intern([]byte(line.Topic))
		if fresh {
			g.last = append(g.last, 0)
		}
		payload = line.Payload(payload[:0], int64(g.MessageBytes))
		g.append(id, message.NewRecord(message.Draft{Payload: payload}, id, g.next, 0, line.Time))
		if line.Number%(1<<14) == 0 {
			if note(int64(line.Number), 0); ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	if g.next == 1 {
		return fmt.Errorf("%s has no messages", g.Data)
	}
	g.Partitions = int(g.table.Partitions())
	g.Topics = int(g.table.Len()) / g.Partitions
	return nil
}

// count looks at what the ring holds.
func (g *ring) count() {
	g.held = make([]int, g.table.Len())
	f, _ := topic.ParseFilters("**")
	r := g.tip.NewReader(topic.NewSelection(g.table, f), g.tip.Floor()-1)
	buf := make([]byte, 0, 1<<20)
	for {
		out, p, err := r.Read(buf, cap(buf))
		if err != nil || p.Count == 0 {
			return
		}
		g.messages += p.Count
		for off := 0; off < len(out); {
			g.held[binary.LittleEndian.Uint32(out[off+4:])]++
			off += message.Stride(int(binary.LittleEndian.Uint32(out[off:])))
		}
	}
}
