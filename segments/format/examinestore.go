package format

import (
	"fmt"

	"chorale/message"
)

// store examines what a store has behind its header.
func (e *examiner) store() {
	x, err := e.file.StoreIndex(e.r)
	if err != nil {
		e.report.Add(err)
		return
	}
	e.report.Blocks = len(x.Blocks)
	lists := make(map[uint32]*list)
	for i, b := range x.Blocks {
		e.report.Records += uint64(b.Raw)
		if err := e.storeBlock(uint32(i), b, lists); err != nil {
			e.report.Add(err)
		}
	}
	if len(e.report.Findings) > 0 {
		return // what follows would only repeat it
	}
	e.compareTopics()
	e.compareLists(lists)
}

// storeBlock checks the records of one block against the tables, and notes which
// topics it holds.
func (e *examiner) storeBlock(i uint32, b StoreBlock, lists map[uint32]*list) error {
	stored := make([]byte, b.Stored)
	if err := e.file.ReadStored(e.r, []StoreBlock{b}, stored); err != nil {
		return err
	}
	records, err := e.file.Unpack(b, stored)
	if err != nil {
		return err
	}
	now := b.FirstTime
	var last message.Record
	err = e.block(b.Off, b.First, b.Last, b.Count, records, func(r message.Record) error {
		if r.Time() < now || last == nil && (r.Time() != b.FirstTime || r.Seq()-e.file.Header.First != uint64(b.First)) {
			return fmt.Errorf("seq %d has time %d, behind %d", r.Seq(), r.Time(), now)
		}
		l := lists[r.Topic()]
		if l == nil {
			l = &list{id: r.Topic()}
			lists[r.Topic()] = l
		}
		l.add(i)
		now, last = r.Time(), r
		return nil
	})
	if err == nil && (now != b.LastTime || last.Seq()-e.file.Header.First != uint64(b.Last)) {
		err = e.file.Damage(b.Off, fmt.Errorf("it ends with seq %d at time %d, the block table says +%d at %d", last.Seq(), now, b.Last, b.LastTime))
	}
	return err
}

// compareLists builds the list table anew from the records.
func (e *examiner) compareLists(lists map[uint32]*list) {
	all := make([]*list, 0, len(lists))
	for _, l := range lists {
		all = append(all, l)
	}
	if want := e.file.Trailer.Tables[ListTable]; message.Sum(appendLists(nil, all)) != want.Sum {
		e.report.Add(e.file.Damage(want.Off, fmt.Errorf("list table differs from the records")))
	}
}
