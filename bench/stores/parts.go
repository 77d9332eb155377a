package stores

import (
	"chorale/segments"
	"chorale/segments/format"
	"chorale/topic"
)

// Part is what readers of a number of subtrees, who find nothing in the cache, read of the
// files of one kind, to the byte: it is planned, not read.
type Part struct {
	Files       int    `json:"files"`
	WantedBytes uint64 `json:"wanted_bytes"`
	TableBytes  uint64 `json:"table_bytes"`
	BlockBytes  uint64 `json:"block_bytes"`
	// DecodedBytes is the records of the blocks.
	DecodedBytes uint64 `json:"decoded_bytes"`
	// Ratio is bytes read / bytes wanted, Worst that of the worst subtree of which anything
	// is here; 0 if nothing is.
	Ratio float64 `json:"read_ratio"`
	Worst float64 `json:"worst_read_ratio"`
}

func (p *Part) add(x segments.Plan) {
	p.WantedBytes += x.Bytes.Estimate
	p.TableBytes += x.Tables
	p.BlockBytes += x.Stored.Estimate
	p.DecodedBytes += x.Decoded.Estimate
}

// sum adds what one subtree needs.
func (p *Part) sum(one Part) {
	p.WantedBytes += one.WantedBytes
	p.TableBytes += one.TableBytes
	p.BlockBytes += one.BlockBytes
	p.DecodedBytes += one.DecodedBytes
	if one.WantedBytes > 0 {
		p.Worst = max(p.Worst, ratio(float64(one.TableBytes+one.BlockBytes), float64(one.WantedBytes)))
	}
}

// parts plans the reading of each subtree, and tells segments from stores.
func (h *history) parts(of []subtree) (inSegments, inStores Part, err error) {
	for _, f := range h.log.Manifest().Files {
		if f.Kind == segments.KindStore {
			inStores.Files++
		} else {
			inSegments.Files++
		}
	}
	for _, s := range of {
		var plain, stored Part
		err := h.log.Explain(topic.NewSelection(h.topics, s.filters), segments.Floors{}, 0, h.log.End(), func(p segments.Plan) error {
			if p.Kind == format.KindStore {
				stored.add(p)
			} else {
				plain.add(p)
			}
			return nil
		})
		if err != nil {
			return inSegments, inStores, err
		}
		inSegments.sum(plain)
		inStores.sum(stored)
	}
	for _, p := range []*Part{&inSegments, &inStores} {
		if p.WantedBytes > 0 {
			p.Ratio = ratio(float64(p.TableBytes+p.BlockBytes), float64(p.WantedBytes))
		}
	}
	return inSegments, inStores, nil
}
