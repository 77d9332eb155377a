package membership

import (
	"errors"
	"fmt"
)

// MaxMetaBytes is what gossip carries of a node's meta.
const MaxMetaBytes = 512

// maxAddressBytes bounds one address in a meta, so that three fit.
const maxAddressBytes = 128

// maxVersionBytes bounds the version.
const maxVersionBytes = 64

// Meta is what a node says of itself in gossip.
type Meta struct {
	// Cluster is the cluster's id, zero if the node does not know it yet.
	Cluster [16]byte
	// Expect is the node's --bootstrap-expect; 0 without.
	Expect int
	// HasData: the folder holds Raft state. Founding: the node is one of the first
	// members of its cluster and has not yet seen data on all of them.
	HasData, Founding bool
	// Ending: the node is about to end, gently; Drained: an operator asked it to.
	Ending, Drained bool
	// The addresses that others reach the node by, host:port.
	API, HTTP, Raft string
	// Version is the node's build, at most maxVersionBytes; the levels are those of the
	// replicated log that it reads. Empty and 0 of nodes that do not say.
	Version                   string
	LowestLevel, HighestLevel uint8
}

// A meta is
//
//	0  1  version, 1
//	1  1  flags: 1 has data, 2 founding, 4 ending, 8 drained
//	2  1  expect
//	3  16 cluster
//	19    three addresses, each a length byte and that many bytes
//	..    lowest and highest level of the log that the node reads; its version, a length
//	      byte and that many bytes. Builds before level 5 leave these out
const (
	metaVersion   = 1
	metaHeadBytes = 19
	flagData      = 1
	flagFounding  = 2
	flagEnding    = 4
	flagDrained   = 8
)

var errBadMeta = errors.New("bad meta")

// Encode is the meta's bytes, at most MaxMetaBytes; an error names what is too long.
func (m Meta) Encode() ([]byte, error) {
	if m.Expect < 0 || m.Expect > 255 {
		return nil, fmt.Errorf("%w: bootstrap-expect of %d", errBadMeta, m.Expect)
	}
	b := []byte{metaVersion, 0, byte(m.Expect)}
	for flag, set := range map[byte]bool{flagData: m.HasData, flagFounding: m.Founding, flagEnding: m.Ending, flagDrained: m.Drained} {
		if set {
			b[1] |= flag
		}
	}
	b = append(b, m.Cluster[:]...)
	for _, a := range []string{m.API, m.HTTP, m.Raft} {
		if len(a) > maxAddressBytes {
			return nil, fmt.Errorf("%w: address %q has %d bytes: at most %d are allowed", errBadMeta, a, len(a), maxAddressBytes)
		}
		b = append(b, byte(len(a)))
		b = append(b, a...)
	}
	if len(m.Version) > maxVersionBytes {
		return nil, fmt.Errorf("%w: version %q has %d bytes: at most %d are allowed", errBadMeta, m.Version, len(m.Version), maxVersionBytes)
	}
	b = append(b, m.LowestLevel, m.HighestLevel, byte(len(m.Version)))
	return append(b, m.Version...), nil
}

// DecodeMeta reads what Encode wrote, in this version or an earlier one. Bytes behind that
// are a later version's and ignored.
func DecodeMeta(b []byte) (Meta, error) {
	if len(b) < metaHeadBytes || b[0] == 0 {
		return Meta{}, fmt.Errorf("%w: %d bytes", errBadMeta, len(b))
	}
	m := Meta{
		Expect: int(b[2]), HasData: b[1]&flagData != 0, Founding: b[1]&flagFounding != 0,
		Ending: b[1]&flagEnding != 0, Drained: b[1]&flagDrained != 0, Cluster: [16]byte(b[3:]),
	}
	rest := b[metaHeadBytes:]
	for _, a := range []*string{&m.API, &m.HTTP, &m.Raft} {
		if len(rest) == 0 || int(rest[0]) > len(rest)-1 {
			return Meta{}, fmt.Errorf("%w: an address is cut", errBadMeta)
		}
		n := int(rest[0])
		*a, rest = string(rest[1:1+n]), rest[1+n:]
	}
	if len(rest) == 0 {
		return m, nil
	}
	if len(rest) < 3 || int(rest[2]) > len(rest)-3 {
		return Meta{}, fmt.Errorf("%w: the version is cut", errBadMeta)
	}
	m.LowestLevel, m.HighestLevel, m.Version = rest[0], rest[1], string(rest[3:3+int(rest[2])])
	return m, nil
}
