package api

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// ProgressInterval is how often a node sends something on every subscription, be
// it a response without records. A client that hears nothing for several of them
// takes the connection for dead.
const ProgressInterval = 2 * time.Second

const (
	// MaxMessageBytes bounds one gRPC message of either direction. It has room for
	// a batch or a record of the largest size and its protobuf fields.
	MaxMessageBytes = 32 << 20

	streamWindowBytes     = 8 << 20
	connectionWindowBytes = 16 << 20
	socketBufferBytes     = 256 << 10

	// A client asks after this silence whether its peer is alive, and a node
	// tolerates such questions at half that distance.
	keepaliveEvery   = 20 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// DialOptions are the transport options of everything that dials a node: codec,
// windows, sizes, keepalive. Credentials are the caller's to add.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(Codec()),
			grpc.MaxCallRecvMsgSize(MaxMessageBytes),
			grpc.MaxCallSendMsgSize(MaxMessageBytes),
		),
		grpc.WithStaticStreamWindowSize(streamWindowBytes),
		grpc.WithStaticConnWindowSize(connectionWindowBytes),
		grpc.WithWriteBufferSize(socketBufferBytes),
		grpc.WithReadBufferSize(socketBufferBytes),
		// Retries are the client's own (they may go to another node), and gRPC's
		// would keep a copy of what was sent.
		grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
	}
}

// ServerOptions are the transport options of a node's gRPC servers. Credentials
// are the caller's to add.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(Codec()),
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.StaticStreamWindowSize(streamWindowBytes),
		grpc.StaticConnWindowSize(connectionWindowBytes),
		grpc.WriteBufferSize(socketBufferBytes),
		grpc.ReadBufferSize(socketBufferBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveEvery / 2, PermitWithoutStream: true}),
	}
}
