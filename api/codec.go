package api

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Codec is the codec of nodes and clients. It writes and reads *Frame and
// *BatchFrame by itself and leaves every other message to plain protobuf; on the
// wire it cannot be told from plain protobuf.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(grpcproto.Name)} }

type codec struct{ plain encoding.CodecV2 }

// Name is what plain protobuf calls itself, because the bytes are the same.
func (codec) Name() string { return grpcproto.Name }

// Marshal implements encoding.CodecV2. It takes its own reference to the buffers
// of a frame.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *Frame:
		return m.marshal()
	case *BatchFrame:
		return m.marshal(), nil
	default:
		return c.plain.Marshal(v)
	}
}

// Unmarshal implements encoding.CodecV2. A frame that still holds a buffer gives
// it back first.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *Frame:
		m.Release()
		*m = Frame{}
		return unmarshal(data, m)
	case *BatchFrame:
		m.Release()
		*m = BatchFrame{}
		return unmarshal(data, m)
	default:
		return c.plain.Unmarshal(data, v)
	}
}

// The field numbers of SubscribeResponse and PublishRequest.
const (
	fieldOpened  = 1
	fieldTopics  = 2
	fieldRecords = 3
	fieldScanned = 4
	fieldTip     = 5
	fieldFloors  = 6

	fieldID    = 1
	fieldBatch = 2
)

func (f *Frame) marshal() (mem.BufferSlice, error) {
	var head, tail []byte
	var err error
	if f.Opened != nil {
		if head, err = appendMessage(head, fieldOpened, f.Opened); err != nil {
			return nil, err
		}
	}
	for _, t := range f.Topics {
		if head, err = appendMessage(head, fieldTopics, t); err != nil {
			return nil, err
		}
	}
	tail = appendUint64(tail, fieldScanned, f.ScannedSeq)
	tail = appendUint64(tail, fieldTip, f.TipSeq)
	for _, floor := range f.Floors {
		if tail, err = appendMessage(tail, fieldFloors, floor); err != nil {
			return nil, err
		}
	}
	return join(head, fieldRecords, f.Records, tail), nil
}

func (f *BatchFrame) marshal() mem.BufferSlice {
	return join(appendUint64(nil, fieldID, f.ID), fieldBatch, f.Batch, nil)
}

// join puts a bytes field, by reference, between the fields before and behind it.
// Fields of zero length are left out, as proto3 wants it.
func join(head []byte, field protowire.Number, b mem.Buffer, tail []byte) mem.BufferSlice {
	if n := len(bufferBytes(b)); n == 0 {
		return mem.BufferSlice{mem.SliceBuffer(append(head, tail...))}
	}
	head = protowire.AppendTag(head, field, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(b.Len()))
	b.Ref()
	out := append(make(mem.BufferSlice, 0, 3), mem.SliceBuffer(head), b)
	if len(tail) > 0 {
		out = append(out, mem.SliceBuffer(tail))
	}
	return out
}

func appendMessage(dst []byte, field protowire.Number, m proto.Message) ([]byte, error) {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(proto.Size(m)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
}

func appendUint64(dst []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

// fields is what unmarshal needs of a frame: to take a varint field or a bytes
// field by number. A field that is not of the message, or comes with another wire
// type than the message declares, is skipped, as generated code does.
type fields interface {
	setUint64(field protowire.Number, v uint64)
	// setBytes is given the field's place in the buffer that holds the message.
	setBytes(field protowire.Number, whole mem.Buffer, from, to int) error
	Release()
}

// unmarshal puts the pieces of a message together, once, and walks its fields. A
// frame that failed to parse holds no buffer.
func unmarshal(data mem.BufferSlice, into fields) (err error) {
	whole := data.MaterializeToBuffer(Buffers)
	defer whole.Free()
	defer func() {
		if err != nil {
			into.Release()
		}
	}()
	b := whole.ReadOnlyData()
	for at := 0; at < len(b); {
		field, wire, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		if field > protowire.MaxValidNumber {
			return fmt.Errorf("field %d is beyond protobuf's last, %d", field, protowire.MaxValidNumber)
		}
		at += n
		if n = protowire.ConsumeFieldValue(field, wire, b[at:]); n < 0 {
			return fmt.Errorf("field %d: %w", field, protowire.ParseError(n))
		}
		switch wire {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b[at:])
			into.setUint64(field, v)
		case protowire.BytesType:
			value, _ := protowire.ConsumeBytes(b[at:])
			if err := into.setBytes(field, whole, at+n-len(value), at+n); err != nil {
				return fmt.Errorf("field %d: %w", field, err)
			}
		}
		at += n
	}
	return nil
}

func (f *Frame) setUint64(field protowire.Number, v uint64) {
	switch field {
	case fieldScanned:
		f.ScannedSeq = v
	case fieldTip:
		f.TipSeq = v
	}
}

func (f *Frame) setBytes(field protowire.Number, whole mem.Buffer, from, to int) error {
	switch field {
	case fieldOpened:
		// A message field that comes twice is merged: that is protobuf's rule.
		if f.Opened == nil {
			f.Opened = new(Opened)
		}
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(whole.ReadOnlyData()[from:to], f.Opened)
	case fieldTopics:
		t := new(TopicName)
		f.Topics = append(f.Topics, t)
		return proto.Unmarshal(whole.ReadOnlyData()[from:to], t)
	case fieldFloors:
		floor := new(Floor)
		f.Floors = append(f.Floors, floor)
		return proto.Unmarshal(whole.ReadOnlyData()[from:to], floor)
	case fieldRecords:
		f.Release()
		f.Records = whole.Slice(from, to)
	}
	return nil
}

func (f *BatchFrame) setUint64(field protowire.Number, v uint64) {
	if field == fieldID {
		f.ID = v
	}
}

func (f *BatchFrame) setBytes(field protowire.Number, whole mem.Buffer, from, to int) error {
	if field == fieldBatch {
		f.Release()
		f.Batch = whole.Slice(from, to)
	}
	return nil
}
