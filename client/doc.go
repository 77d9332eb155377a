// Package client publishes to and subscribes from a Chorale cluster.
//
//	c, err := client.Dial([]string{"node1:7400", "node2:7400", "node3:7400"}, client.Options{})
//	defer c.Close()
//
// Any node will do for anything; the client takes one of the addresses and goes on
// to another when it fails. It needs some addresses, not all.
//
// # Publishing
//
//	p, err := c.Publisher(client.PublisherOptions{})
//	r := p.Publish(ctx, client.Message{Topic: "app/orders/created", Payload: order})
//	ack, err := r.Wait(ctx) // ack.Seq is its place in the stream
//
// An acknowledged message is on the disks of a majority of the nodes. A publisher
// keeps the order of its calls, sends many messages at a time, sends again what was
// not acknowledged, and no message is stored twice. When it is full, Publish blocks.
// Flush waits for everything so far, Close does and ends it.
//
// Programs that publish much save the future by PublishFunc. PublishAtomic stores
// several messages together or not at all. Message.ExpectedLastSeq stores a message
// only if nothing came to its topic in between (a *ConditionError tells what did).
//
// A program that must continue after its own crash gives its Producer and the number
// of its first message: what the cluster has already is acknowledged with the seq of
// the first time. Client.LastNumber tells how far it has come.
//
// # Subscribing
//
//	s, err := c.Subscribe(ctx, client.SubscribeOptions{
//		Filters: []string{"app/orders/**"},
//		From:    client.First(),
//	})
//	defer s.Close()
//	for m, err := range s.Messages(ctx) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(m.Seq, m.Topic, m.Payload)
//	}
//
// A subscription delivers exactly the messages that its filters match, from where it
// starts, in the order of the stream, and follows it, unless UntilTip is set. If its
// node fails, it goes on at another at the very next message. Every message is
// verified: its checksums, its place, its topic, and by the seq of its topic's
// previous message that none is missing. What cannot be is a *ViolationError.
//
// Position is a resume token: store its text, and Resume later, on any node. Nodes
// keep no state of subscribers.
//
// What a rule of retention let go is not delivered, and the nodes say so: a message may be
// missing only where it lies below a floor of its topic. OnExpired of the options tells which
// topics a subscription was too late for.
//
// A subscriber that reads slowly is never disconnected and costs bounded memory on
// both sides. NextBatch is for those who read millions a second.
//
// # Waiting
//
// Publishers and subscriptions wait by themselves while no node serves them: none
// answers, there is no leader, a file is missing. OnWait of their options tells why
// (see Wait), and when it goes on:
//
//	OnWait: func(w client.Wait) { log.Print(w) }
//
// # Errors
//
// Errors wrap one of few sentinels, named for what a program can do about them; see
// ErrInvalid and its neighbours.
package client
