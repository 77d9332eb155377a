package tip

// AddEntry makes the index entry of a message alone, for measurements; the chunk
// that was appended to last takes it.
func (t *Tip) AddEntry(partition, topic uint32) { t.now().index.add(&t.now().ring, partition, topic) }

// PublishEntries makes the entries visible.
func (t *Tip) PublishEntries() { t.now().index.publish() }

// NoSketches makes readers look at the entries of every block.
func (t *Tip) NoSketches() { t.now().index.pool.sizes.busy = 1 << 30 }
