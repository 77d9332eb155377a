package format

import (
	"io"

	"chorale/message"
)

// Writer writes a segment file front to back. For one goroutine.
type Writer struct {
	envelope
	open   Block // not yet written
	before Block
	buf    []byte
	table  []byte
}

// NewWriter starts a file.
func NewWriter(to io.Writer, h Header) *Writer {
	return &Writer{envelope: newEnvelope(to, h)}
}

// Add copies a padded record: partition by partition in tree order, within one by
// seq.
func (w *Writer) Add(partition uint32, padded []byte) {
	if w.open.Count > 0 && (w.open.Partition != partition || len(w.buf) >= BlockTarget) {
		w.endBlock()
	}
	seq := uint32(message.Record(padded).Seq() - w.header.First)
	if w.open.Count == 0 {
		w.open.Partition, w.open.First = partition, seq
	}
	w.open.Last = seq
	w.open.Count++
	w.buf = append(w.buf, padded...)
}

func (w *Writer) endBlock() {
	w.open.Bytes, w.open.Sum = uint32(len(w.buf)), message.Sum(w.buf)
	w.table = appendBlock(w.table, w.open, w.before)
	w.write(w.buf)
	w.before, w.open, w.buf = w.open, Block{}, w.buf[:0]
}

// Finish writes tables and trailer. The volumes are in tree order. Whoever names
// the file sets the path of its description.
func (w *Writer) Finish(volumes []TopicVolume, times *Times) (Summary, error) {
	if w.open.Count > 0 {
		w.endBlock()
	}
	return w.finish(volumes, w.table, times.Table())
}
