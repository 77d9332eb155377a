package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"chorale/client"
	"chorale/message"

	"google.golang.org/grpc/credentials"
)

func Example() {
	ctx := context.Background()
	c, err := client.Dial([]string{"localhost:7400", "localhost:7410", "localhost:7420"}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	p, err := c.Publisher(client.PublisherOptions{})
	if err != nil {
		log.Fatal(err)
	}
	p.Publish(ctx, client.Message{Topic: "app/orders/created", Payload: []byte("order 1")})
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}

	s, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"app/orders/**"}, UntilTip: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for m, err := range s.Messages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s %s\n", m.Seq, m.Topic, m.Payload)
	}
}

// With TLS, and a certificate of its own for mutual TLS.
func ExampleDial_tls() {
	certificate, err := tls.LoadX509KeyPair("client.crt", "client.key")
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Dial([]string{"node1.example:7400"}, client.Options{
		Credentials: credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// Futures: many messages are under way; each outcome is asked for later.
func ExamplePublisher_Publish() {
	var p *client.Publisher // from Client.Publisher
	ctx := context.Background()
	var results []*client.Result
	for i := range 1000 {
		results = append(results, p.Publish(ctx, client.Message{Topic: "app/ticks", Payload: fmt.Append(nil, i)}))
	}
	for i, r := range results {
		ack, err := r.Wait(ctx)
		switch {
		case errors.Is(err, client.ErrUncertain):
			fmt.Println(i, "may be stored: it was sent and never answered")
		case err != nil:
			fmt.Println(i, "is not stored:", err)
		default:
			fmt.Println(i, "has seq", ack.Seq)
		}
	}
}

// Optimistic concurrency: write only if nobody else did since we read.
func ExampleConditionError() {
	var p *client.Publisher // from Client.Publisher
	ctx := context.Background()
	last := uint64(17) // seq of the topic's message that the decision is based on
	_, err := p.Publish(ctx, client.Message{
		Topic: "accounts/4711", Payload: []byte("balance 50"), ExpectedLastSeq: &last,
	}).Wait(ctx)
	if refused := new(client.ConditionError); errors.As(err, &refused) {
		fmt.Println("read again: the account changed with seq", refused.LastSeq)
	}
}

// Two topics change together or not at all.
func ExamplePublisher_PublishAtomic() {
	var p *client.Publisher // from Client.Publisher
	ctx := context.Background()
	ack, err := p.PublishAtomic(ctx,
		client.Message{Topic: "accounts/1", Payload: []byte("-10")},
		client.Message{Topic: "accounts/2", Payload: []byte("+10")},
	).Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stored as", ack.Seq, "and", ack.Seq+1)
}

// A program that copies something into the stream and continues after a crash: the
// number of a message is its place in the source, so nothing is stored twice.
func ExampleClient_LastNumber() {
	var c *client.Client // from Dial
	ctx := context.Background()
	id := client.ProducerID{0xc0, 0xff, 0xee} // of this source, for ever
	last, err := c.LastNumber(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	p, err := c.Publisher(client.PublisherOptions{Producer: id, FirstNumber: last + 1})
	if err != nil {
		log.Fatal(err)
	}
	lines := []string{"the", "source"}
	for _, line := range lines[last:] {
		p.Publish(ctx, client.Message{Topic: "import/lines", Payload: []byte(line)})
	}
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
}

// A resume token in a file: after a crash or a move to another machine, the next run
// goes on behind the last message that was handled.
func ExampleResume() {
	var c *client.Client // from Dial
	ctx := context.Background()
	o := client.SubscribeOptions{Filters: []string{"app/orders/**"}, From: client.First()}
	if token, err := os.ReadFile("position"); err == nil {
		var at client.Position
		if err := at.UnmarshalText(token); err != nil {
			log.Fatal(err)
		}
		o.From = client.Resume(at)
	}
	s, err := c.Subscribe(ctx, o)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for m, err := range s.Messages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Seq) // handle the message, then remember it
		if err := os.WriteFile("position", []byte(s.Position().String()), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// The last two hours of a subtree, batch by batch and without copying.
func ExampleSubscription_NextBatch() {
	var c *client.Client // from Dial
	ctx := context.Background()
	s, err := c.Subscribe(ctx, client.SubscribeOptions{
		Filters: []string{"metrics/**"}, From: client.FromTime(time.Now().Add(-2 * time.Hour)), UntilTip: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	bytes := map[string]int{}
	for {
		b, err := s.NextBatch(ctx)
		if err != nil {
			break // io.EOF at the end
		}
		for rest := b.Records(); len(rest) > 0; {
			var r message.Record
			if r, rest, err = message.Split(rest); err != nil {
				log.Fatal(err)
			}
			bytes[b.Topic(r.Topic())] += len(r.Payload())
		}
		b.Release()
	}
	fmt.Println(len(bytes), "topics")
}
