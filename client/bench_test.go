package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"

	"chorale/api"
	"chorale/client/verify"
	"chorale/message"
	"chorale/topic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// ackNode acknowledges every batch of single messages without looking into it.
type ackNode struct{ api.UnimplementedStreamServer }

func (ackNode) Publish(s grpc.BidiStreamingServer[api.PublishRequest, api.PublishResponse]) error {
	seq := uint64(1)
	for {
		var f api.BatchFrame
		if err := s.RecvMsg(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		units := binary.LittleEndian.Uint32(f.BatchBytes()[12:])
		f.Release()
		if err := s.Send(&api.PublishResponse{Id: f.ID, Outcomes: []*api.Outcome{{Kind: api.Outcome_STORED, Seq: seq, Units: units}}}); err != nil {
			return err
		}
		seq += uint64(units)
	}
}

// BenchmarkPublish publishes messages of 128 B over 1,000 topics from one goroutine
// to a node in the same process that acknowledges at once; ns/op is per message,
// gRPC on both sides included. Run it with -cpu 1.
func BenchmarkPublish(b *testing.B) {
	payload := make([]byte, 128)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("app/orders/region%d/created", i)
	}
	publish := map[string]func(p *Publisher, m Message) *Result{
		"callback": func(p *Publisher, m Message) *Result {
			if err := p.PublishFunc(ctx, m, func(Ack, error) {}); err != nil {
				b.Error(err)
			}
			return nil
		},
		"future": func(p *Publisher, m Message) *Result { return p.Publish(ctx, m) },
	}
	for _, form := range []string{"callback", "future"} {
		b.Run(form, func(b *testing.B) {
			c := newCluster(b, 1)
			c.nodes[0].stop()
			c.nodes[0].startAs(ackNode{})
			p, err := c.dial(b, Options{}).Publisher(PublisherOptions{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				publish[form](p, Message{Topic: names[i%len(names)], Payload: payload})
			}
			if err := p.Flush(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkSubscribe takes messages of 128 B over 1,000 topics from frames of 256 KiB
// in memory, through verification, to the caller; ns/op is per message.
func BenchmarkSubscribe(b *testing.B) {
	const perFrame, topics = 1489, 1000
	var frames []api.Frame
	var last [topics]uint64
	for seq := uint64(1); len(frames) < 64; {
		f := api.Frame{}
		var records []byte
		for range perFrame {
			id := uint32(seq*7) % topics
			if last[id] == 0 {
				f.Topics = append(f.Topics, &api.TopicName{Id: id, Name: fmt.Sprintf("app/%d", id)})
			}
			records = message.AppendPadded(records, message.NewRecord(message.Draft{Payload: make([]byte, 128)}, id, seq, last[id], int64(seq)))
			last[id] = seq
			seq++
		}
		f.Records, f.ScannedSeq, f.TipSeq = mem.SliceBuffer(records), seq-1, seq-1
		frames = append(frames, f)
	}
	all, err := topic.ParseFilters("**")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			s := inMemory(all, frames)
			for ; n < b.N; n++ {
				if _, err := s.Next(ctx); err != nil {
					break
				}
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	})
	b.Run("batch", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			s := inMemory(all, frames)
			for n < b.N {
				batch, err := s.NextBatch(ctx)
				if err != nil {
					break
				}
				for rest := batch.Records(); len(rest) > 0; n++ {
					if _, rest, err = message.Split(rest); err != nil {
						b.Fatal(err)
					}
				}
				batch.Release()
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	})
}

// inMemory is a subscription whose frames are all there.
func inMemory(filters *topic.Filters, frames []api.Frame) *Subscription {
	f := &feed{frames: make(chan fed, len(frames))}
	for _, frame := range slices.Clone(frames) {
		f.frames <- fed{frame: frame}
	}
	close(f.frames)
	return &Subscription{feed: f, cancel: func() {}, verifier: verify.New(filters, 0, false, 0, nil)}
}
