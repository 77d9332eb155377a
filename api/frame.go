package api

import "google.golang.org/grpc/mem"

// Frame is a SubscribeResponse whose records lie in a pooled buffer. The zero
// value is an empty response. For one goroutine.
type Frame struct {
	Opened     *Opened
	Topics     []*TopicName
	Floors     []*Floor
	ScannedSeq uint64
	TipSeq     uint64
	// Records is nil or one reference that the frame's holder owns; see Release.
	Records mem.Buffer
}

// RecordBytes is the view of the records, valid until Release; nil without any.
func (f *Frame) RecordBytes() []byte { return bufferBytes(f.Records) }

// Release gives the frame's reference to the records back. A sender calls it when
// SendMsg has returned, a receiver when it is done with the records. It may be
// called again.
func (f *Frame) Release() { release(&f.Records) }

// BatchFrame is a PublishRequest whose batch lies in a pooled buffer. For one
// goroutine.
type BatchFrame struct {
	ID uint64
	// Batch is nil or one reference that the frame's holder owns; see Release.
	// A holder that needs the bytes for longer than the frame takes Batch with it
	// and sets the field to nil.
	Batch mem.Buffer
}

// BatchBytes is the view of the batch, valid until Release; nil without any.
func (f *BatchFrame) BatchBytes() []byte { return bufferBytes(f.Batch) }

// Release gives the frame's reference to the batch back. A publisher calls it when
// the batch is acknowledged (until then it may have to send it again), a node when
// the batch's bytes are in a Raft entry. It may be called again.
func (f *BatchFrame) Release() { release(&f.Batch) }

func bufferBytes(b mem.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.ReadOnlyData()
}

func release(b *mem.Buffer) {
	if *b != nil {
		(*b).Free()
		*b = nil
	}
}
