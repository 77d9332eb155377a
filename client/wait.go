package client

import "chorale/client/waits"

// Wait says why a subscription or a publisher waits for nodes, and for how long it
// has; or, with Err nil, that it goes on. Its String is a line for a log.
//
// OnWait of SubscribeOptions and PublisherOptions is called with one when a wait
// has lasted for a quarter of a second (a failover to a node that serves is none)
// or when a node has owed an answer for two: then at once for every new reason, but
// once a second at most; every five seconds for a reason that stays; and once when
// it goes on, if it was told of the wait. Reasons that differ in their figures
// alone are the same.
//
// It is called by goroutines of the subscription or publisher (while Subscribe
// opens one, also by that of the caller), one call at a time and in order. They do
// not go on meanwhile, so it should return soon and must not close the client or
// the publisher. After the end at most a call returns that was under way.
type Wait = waits.Wait
