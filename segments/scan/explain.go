package scan

import (
	"math"

	"chorale/message"
	"chorale/segments/data"
	"chorale/segments/format"
	"chorale/segments/manifest"
)

// Amount is a number that is known within bounds: Low <= Estimate <= High. It is
// exact if all are the same.
type Amount struct{ Low, Estimate, High uint64 }

// Exactly is an amount without doubt.
func Exactly(n uint64) Amount { return Amount{n, n, n} }

// Plus is the sum of two amounts.
func (a Amount) Plus(b Amount) Amount {
	return Amount{a.Low + b.Low, a.Estimate + b.Estimate, a.High + b.High}
}

// Exact reports whether the amount is without doubt.
func (a Amount) Exact() bool { return a.Low == a.High }

// Plan is what a reader would read of one range of the history, and what it would find
// in it.
type Plan struct {
	First, Last uint64
	Kind        format.Kind // of the files; 0 for what is in memory, where nothing is read
	Files       int         // of the range
	Asked       int         // of these, whose tables are read
	Touched     int         // of these, with blocks that are read
	// Tables is the bytes of the tables that are read; Cached how many of these and of
	// the blocks that are read are in the cache at the moment.
	Tables, Cached uint64
	// Blocks that are read, their bytes in the file, and those of their records. If the
	// reader may go over to the tip within the range, the bounds say from where on.
	Blocks, Stored, Decoded Amount
	Messages, Bytes         Amount // of wanted records, padded
}

// Read is how many bytes are read from the files.
func (p Plan) Read() Amount { return p.Stored.Plus(Exactly(p.Tables)) }

// leastStride is the stride of the smallest record.
const leastStride = message.HeadBytes + message.Align

// topicTables is how many bytes of topic tables an Explainer reads. Behind them it
// knows bounds alone, and guesses by what it has found so far.
const topicTables = 64 << 20

// Explainer plans what a query would read, without reading a block. For one goroutine.
type Explainer struct {
	*Shared
	q             *Query
	Left          int64  // bytes of topic tables that may still be read
	found, looked uint64 // wanted bytes and all bytes of the partly wanted blocks so far
}

// NewExplainer plans for one query.
func (s *Shared) NewExplainer(q *Query) *Explainer {
	return &Explainer{Shared: s, q: q, Left: topicTables}
}

// Explain plans for a reader that stands at pos on the files of the range from first to
// last that concern it, and which leaves it behind seq until at the earliest. Errors
// are those of Open.
func (x *Explainer) Explain(first, last, pos, until uint64, files []*data.File) (Plan, error) {
	p := Plan{First: pos + 1, Last: last}
	c, err := x.Open(x.q, first, last, pos, last, files)
	if err != nil {
		return p, err
	}
	defer c.Close()
	for _, f := range files {
		p.Kind = f.Meta.Kind
		if !x.q.mayBeIn(f) {
			continue // by now that is known, and its tables will not be read
		}
		p.Asked++
		n := uint64(f.Trailer.Tables[format.BlockTable].Bytes)
		if p.Kind == manifest.KindStore {
			n += uint64(f.Trailer.Tables[format.ListTable].Bytes)
			if x.Cache.Has(key{f, indexBlock}) {
				p.Cached += n
			}
		}
		p.Tables += n
	}
	blocks := make([][]extent, len(c.parts))
	for _, e := range c.blocks {
		blocks[e.part] = append(blocks[e.part], e)
		stored := c.stored(e)
		if c.parts[e.part].store != nil && x.Cache.Has(key{c.parts[e.part].file, e.block}) {
			p.Cached += stored
		}
		p.Blocks.addUpTo(until, first+uint64(e.first), 1)
		p.Stored.addUpTo(until, first+uint64(e.first), stored)
		p.Decoded.addUpTo(until, first+uint64(e.first), uint64(e.bytes))
	}
	p.Touched = len(c.parts)
	for i := range c.parts {
		v, err := x.volume(c, &c.parts[i], blocks[i], uint32(pos+1-first))
		if err != nil {
			return p, err
		}
		p.Messages, p.Bytes = p.Messages.Plus(v.messages), p.Bytes.Plus(v.bytes)
	}
	if x.q.sel.All() && c.full() && !x.sifts(first) {
		p.Messages = Exactly(last - pos)
	}
	return p, nil
}

// sifts reports whether something of a range that begins with a seq has gone: then its
// volume is counted topic by topic.
func (x *Explainer) sifts(first uint64) bool { return first < x.q.Floors.Highest }

// addUpTo adds n for something at a seq: for sure if the reader must come there.
func (a *Amount) addUpTo(until, seq, n uint64) {
	a.High += n
	if seq <= until {
		a.Low += n
		a.Estimate += n
	}
}

// stored is the bytes of a block in its file.
func (c *Scan) stored(e extent) uint64 {
	if x := c.parts[e.part].store; x != nil {
		return uint64(x.Blocks[e.block].Stored)
	}
	return uint64(e.bytes)
}

// volume is messages and the bytes of their padded records.
type volume struct{ messages, bytes Amount }

func (v *volume) add(w volume) {
	v.messages, v.bytes = v.messages.Plus(w.messages), v.bytes.Plus(w.bytes)
}

// volumeFrom is the volume from seq start on of what has so many messages from seq first to
// last, which is not before start. If it begins before, one message at least lies on
// either side, and the guess is that they are spread evenly.
func volumeFrom(start, first, last uint32, messages, bytes uint64) volume {
	if first >= start {
		return volume{Exactly(messages), Exactly(bytes)}
	}
	if messages < 2 { // a table that says so does not tell the truth
		return volume{Amount{High: messages}, Amount{High: bytes}}
	}
	share := float64(last-start+1) / float64(last-first+1)
	within := func(n, least uint64) Amount {
		return Amount{least, min(max(uint64(float64(n)*share), least), n-least), n - least}
	}
	return volume{within(messages, 1), within(max(bytes, 2*leastStride), leastStride)}
}

// volume counts what is wanted of a part in these blocks: by the block table, as far as
// everything in a block is wanted, and for the rest by the topic table.
func (x *Explainer) volume(c *Scan, p *part, blocks []extent, start uint32) (volume, error) {
	var whole, partly volume
	covers := x.covers(c, p)
	for _, e := range blocks {
		covered, count := covers(e)
		v := volumeFrom(start, e.first, e.last, count, uint64(e.bytes))
		if covered {
			whole.add(v)
		} else {
			partly.add(v)
		}
	}
	if partly.messages.High == 0 {
		return whole, nil
	}
	n := p.file.Trailer.Tables[format.TopicTable].Bytes
	if n > x.Left {
		whole.add(x.guess(partly))
		return whole, nil
	}
	x.Left -= n
	v, err := x.byTopic(c, p, start)
	if err != nil {
		return whole, err
	}
	x.found, x.looked = x.found+v.bytes.Estimate, x.looked+partly.bytes.Estimate
	v.messages.cap(partly.messages.High)
	v.bytes.cap(partly.bytes.High)
	whole.add(v)
	return whole, nil
}

// cap lowers the upper bound.
func (a *Amount) cap(high uint64) {
	a.High = min(a.High, high)
	a.Low, a.Estimate = min(a.Low, a.High), min(a.Estimate, a.High)
}

// covers says of a block whether all of it is wanted, and how many records it has. Of
// a store that is so for all blocks or for none.
func (x *Explainer) covers(c *Scan, p *part) func(e extent) (bool, uint64) {
	all := !x.sifts(c.first)
	if p.store == nil {
		return func(e extent) (bool, uint64) {
			b := &p.segment.Blocks[e.block]
			return all && x.q.sel.PartitionCovered(b.Partition), uint64(b.Count)
		}
	}
	if !x.q.sel.All() {
		p.store.Wanted(func(id uint32) bool {
			all = all && x.q.sel.Match(id)
			return false
		})
	}
	return func(e extent) (bool, uint64) { return all, uint64(p.store.Blocks[e.block].Count) }
}

// byTopic sums what the topic table says of the wanted topics that covers does not
// answer for.
func (x *Explainer) byTopic(c *Scan, p *part, start uint32) (v volume, err error) {
	if err := c.handle(p); err != nil {
		return v, err
	}
	topics, err := p.file.Topics(p.handle)
	if err != nil {
		return v, c.broken(p.file, err)
	}
	if c.handles > maxHandles {
		c.releaseAll()
	}
	sifts := x.sifts(c.first)
	for _, t := range topics {
		last, from := uint32(t.Last-c.first), start
		if last < start || !x.q.sel.Match(t.ID) || p.store == nil && !sifts && x.q.sel.PartitionCovered(x.Topics.Partition(t.ID)) {
			continue
		}
		if sifts {
			floor := x.q.Floors.Of(t.ID)
			if floor > t.Last {
				continue
			}
			from = max(from, uint32(max(floor, c.first)-c.first))
		}
		v.add(volumeFrom(from, uint32(t.First-c.first), last, t.Messages, t.Bytes))
	}
	return v, nil
}

// guess is what may be wanted of partly wanted blocks, by the share that was wanted of
// those before.
func (x *Explainer) guess(partly volume) volume {
	share := 1.0
	if x.looked > 0 {
		share = float64(x.found) / float64(x.looked)
	}
	of := func(a Amount) Amount {
		return Amount{Estimate: uint64(math.Round(float64(a.Estimate) * min(share, 1))), High: a.High}
	}
	return volume{of(partly.messages), of(partly.bytes)}
}
