package format

import (
	"crypto/sha256"
	"hash"
	"io"

	"chorale/message"
)

// Writer writes a segment file front to back. For one goroutine.
type Writer struct {
	to     io.Writer
	hash   hash.Hash
	n      int64
	err    error // the first one; nothing is written after it
	header Header
	sum    uint32 // of the header

	open   Block // not yet written
	before Block
	buf    []byte
	table  []byte
}

// Summary describes a finished file.
type Summary struct {
	Bytes int64
	Hash  [sha256.Size]byte
	File  *File
}

// NewWriter starts a file.
func NewWriter(to io.Writer, h Header) *Writer {
	w := &Writer{to: to, hash: sha256.New(), header: h}
	b := h.Encode()
	w.sum = message.Sum(b[:60])
	w.write(b)
	return w
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
	t := Trailer{Blocks: w.n - HeaderBytes, HeaderSum: w.sum, Topics: uint32(len(volumes))}
	for i, b := range [tableCount][]byte{w.table, appendTopics(nil, w.header.First, volumes), times.Table()} {
		t.Tables[i] = TableRef{Off: w.n, Bytes: int64(len(b)), Sum: message.Sum(b)}
		w.write(b)
	}
	w.write(t.Encode())
	s := Summary{Bytes: w.n, File: &File{Size: w.n, Header: w.header, Trailer: t}}
	w.hash.Sum(s.Hash[:0])
	return s, w.err
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	_, w.err = w.to.Write(b)
	w.hash.Write(b)
	w.n += int64(len(b))
}
