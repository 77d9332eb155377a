package api

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// wrap makes a counted buffer of the pool with these bytes.
func wrap(b []byte) mem.Buffer {
	p := Buffers.Get(len(b))
	copy(*p, b)
	return mem.NewBuffer(p, Buffers)
}

// cut parts a message into pieces, as HTTP/2 frames do.
func cut(b []byte, piece int) (out mem.BufferSlice) {
	for c := range slices.Chunk(b, piece) {
		out = append(out, mem.Copy(c, Buffers))
	}
	return out
}

func drawResponse(t *rapid.T) *SubscribeResponse {
	m := &SubscribeResponse{
		Records:    rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "records"),
		ScannedSeq: rapid.Uint64().Draw(t, "scanned"),
		TipSeq:     rapid.Uint64Max(2).Draw(t, "tip"),
	}
	if rapid.Bool().Draw(t, "opened") {
		m.Opened = &Opened{
			ClusterId: rapid.String().Draw(t, "cluster"),
			Filters:   rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "filters"),
			AfterSeq:  rapid.Uint64().Draw(t, "after"),
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		m.Topics = append(m.Topics, &TopicName{Id: rapid.Uint32().Draw(t, "id"), Name: rapid.String().Draw(t, "name")})
	}
	return m
}

func frameOf(m *SubscribeResponse) *Frame {
	f := &Frame{Opened: m.Opened, Topics: m.Topics, Floors: m.Floors, ScannedSeq: m.ScannedSeq, TipSeq: m.TipSeq}
	if m.Records != nil {
		f.Records = wrap(m.Records)
	}
	return f
}

func (f *Frame) response() *SubscribeResponse {
	return &SubscribeResponse{
		Opened: f.Opened, Topics: f.Topics, Floors: f.Floors, Records: bytes.Clone(f.RecordBytes()),
		ScannedSeq: f.ScannedSeq, TipSeq: f.TipSeq,
	}
}

func TestFrameIsSubscribeResponseOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawResponse(t)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		f := frameOf(m)
		out, err := Codec().Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Materialize(); !bytes.Equal(got, want) {
			t.Fatalf("frame  %x\nproto  %x", got, want)
		}
		out.Free()
		f.Release()

		var got Frame
		pieces := cut(want, rapid.IntRange(1, 400).Draw(t, "piece"))
		if err := Codec().Unmarshal(pieces, &got); err != nil {
			t.Fatal(err)
		}
		pieces.Free()
		if !proto.Equal(got.response(), m) {
			t.Fatalf("got %v, want %v", got.response(), m)
		}
		got.Release()
	})
}

func TestBatchFrameIsPublishRequestOnTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &PublishRequest{Id: rapid.Uint64().Draw(t, "id"), Batch: rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "batch")}
		want, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		f := &BatchFrame{ID: m.Id, Batch: wrap(m.Batch)}
		for range 2 { // a publisher may send the same frame again
			out, err := Codec().Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Materialize(); !bytes.Equal(got, want) {
				t.Fatalf("frame  %x\nproto  %x", got, want)
			}
			out.Free()
		}
		f.Release()
		var got BatchFrame
		pieces := cut(want, rapid.IntRange(1, 4000).Draw(t, "piece"))
		if err := Codec().Unmarshal(pieces, &got); err != nil {
			t.Fatal(err)
		}
		pieces.Free()
		if got.ID != m.Id || !bytes.Equal(got.BatchBytes(), m.Batch) {
			t.Fatalf("got %d %x, want %v", got.ID, got.BatchBytes(), m)
		}
		got.Release()
	})
}

// counter is a pool that counts what is out.
type counter struct{ out int }

func (c *counter) Get(n int) *[]byte { c.out++; b := make([]byte, n); return &b }
func (c *counter) Put(*[]byte)       { c.out-- }

func TestBuffersComeBackAfterSendAndRelease(t *testing.T) {
	pool := new(counter)
	f := &Frame{Records: mem.NewBuffer(pool.Get(64<<10), pool), ScannedSeq: 9}
	first, err := Codec().Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	f.Release()
	if pool.out != 1 {
		t.Fatal("the buffer went back while gRPC still held it")
	}
	first.Free()
	if pool.out != 0 {
		t.Fatal("the buffer did not go back")
	}
}

func TestReceivedRecordsOutliveTheMessageAndRefillReleasesThem(t *testing.T) {
	pool := new(counter)
	wire, err := proto.Marshal(&SubscribeResponse{Records: make([]byte, 4000), TipSeq: 3})
	if err != nil {
		t.Fatal(err)
	}
	receive := func(f *Frame) {
		b := pool.Get(len(wire))
		copy(*b, wire)
		data := mem.BufferSlice{mem.NewBuffer(b, pool)}
		if err := Codec().Unmarshal(data, f); err != nil {
			t.Fatal(err)
		}
		data.Free()
	}
	var f Frame
	receive(&f)
	if len(f.RecordBytes()) != 4000 || pool.out != 1 {
		t.Fatalf("%d bytes, %d buffers out", len(f.RecordBytes()), pool.out)
	}
	receive(&f)
	if pool.out != 1 {
		t.Fatalf("%d buffers out after a refill, want 1", pool.out)
	}
	f.Release()
	if pool.out != 0 {
		t.Fatalf("%d buffers out after release", pool.out)
	}
}

func TestBufferPoolGivesWhatIsAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40<<20).Draw(t, "bytes")
		b := Buffers.Get(n)
		if len(*b) != n {
			t.Fatalf("asked for %d bytes, got %d", n, len(*b))
		}
		*b = append(*b, make([]byte, rapid.IntRange(0, 5000).Draw(t, "more"))...)
		Buffers.Put(b)
	})
}

// FuzzFrame compares the hand-written decoders with the generated ones.
func FuzzFrame(f *testing.F) {
	whole, err := proto.Marshal(&SubscribeResponse{
		Opened: &Opened{ClusterId: "c", Filters: []string{"a/**"}}, Topics: []*TopicName{{Id: 1, Name: "a/b"}},
		Records: []byte("records"), ScannedSeq: 7, TipSeq: 8,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(append(slices.Clone(whole), whole...)) // every field twice
	f.Add(protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 5))
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), []byte{1}))
	f.Add(protowire.AppendTag(protowire.AppendTag(nil, 9, protowire.StartGroupType), 9, protowire.EndGroupType))
	f.Add([]byte{0x0a, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		pieces := cut(b, 1+rand.N(len(b)+1))
		defer pieces.Free()

		var response SubscribeResponse
		var frame Frame
		wantErr, gotErr := proto.Unmarshal(b, &response), Codec().Unmarshal(pieces, &frame)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("proto: %v, frame: %v", wantErr, gotErr)
		}
		if wantErr == nil {
			// What the two do with unknown fields differs: a frame drops them.
			response.ProtoReflect().SetUnknown(nil)
			if got := frame.response(); !proto.Equal(got, &response) {
				t.Fatalf("proto: %v, frame: %v", &response, got)
			}
		}
		frame.Release()

		var request PublishRequest
		var batch BatchFrame
		wantErr, gotErr = proto.Unmarshal(b, &request), Codec().Unmarshal(pieces, &batch)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("proto: %v, batch: %v", wantErr, gotErr)
		}
		if wantErr == nil && (batch.ID != request.Id || !bytes.Equal(batch.BatchBytes(), request.Batch)) {
			t.Fatalf("proto: %v, batch: %d %x", &request, batch.ID, batch.BatchBytes())
		}
		batch.Release()
	})
}
