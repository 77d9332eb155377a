package format

import (
	"crypto/sha256"
	"hash"
	"io"

	"chorale/message"
)

// envelope writes what is around the blocks of a file of either kind, and hashes all.
type envelope struct {
	to     io.Writer
	hash   hash.Hash
	n      int64
	err    error // the first one; nothing is written after it
	header Header
	sum    uint32 // of the header
}

func newEnvelope(to io.Writer, h Header) envelope {
	e := envelope{to: to, hash: sha256.New(), header: h}
	b := h.Encode()
	e.sum = message.Sum(b[:60])
	e.write(b)
	return e
}

func (e *envelope) write(b []byte) {
	if e.err != nil {
		return
	}
	_, e.err = e.to.Write(b)
	e.hash.Write(b)
	e.n += int64(len(b))
}

// Summary describes a finished file.
type Summary struct {
	Bytes int64
	Hash  [sha256.Size]byte
	File  *File
}

// finish writes tables and trailer.
func (e *envelope) finish(volumes []TopicVolume, blocks, third []byte) (Summary, error) {
	t := Trailer{Kind: e.header.Kind, Blocks: e.n - HeaderBytes, HeaderSum: e.sum, Topics: uint32(len(volumes))}
	for i, b := range [tableCount][]byte{blocks, appendTopics(nil, e.header.First, volumes), third} {
		t.Tables[i] = TableRef{Off: e.n, Bytes: int64(len(b)), Sum: message.Sum(b)}
		e.write(b)
	}
	e.write(t.Encode())
	s := Summary{Bytes: e.n, File: &File{Size: e.n, Header: e.header, Trailer: t}}
	e.hash.Sum(s.Hash[:0])
	return s, e.err
}
