// Package api is the wire between clients and nodes: the generated protobuf and
// gRPC code of chorale.proto, a codec that moves the stream's bytes without
// copying them, and the transport options that both sides share.
//
// What carries messages has two forms. SubscribeResponse and PublishRequest are
// the generated ones; Frame and BatchFrame are the same messages with their bytes
// in counted, pooled buffers. On the wire they are identical.
package api
