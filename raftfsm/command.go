package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"chorale/message"
	"chorale/raftfsm/drops"
	"chorale/raftfsm/frames"
	"chorale/raftfsm/kept"
	"chorale/raftfsm/level"
	"chorale/raftfsm/members"
	"chorale/raftfsm/plans"
	"chorale/raftfsm/retention"
	"chorale/segments"
)

var (
	// ErrCorrupt marks an entry or a snapshot whose bytes are not what a node wrote.
	ErrCorrupt = frames.ErrCorrupt
	// ErrNewer marks an entry or a snapshot that a newer version wrote.
	ErrNewer = level.ErrNewer
)

// Kind tells the commands apart.
type Kind = level.Kind

// The commands.
const (
	KindGenesis = level.Genesis
	KindPublish = level.Publish
	KindEdit    = level.Edit
	KindPlan    = level.Plan
	KindAbandon = level.Abandon
	KindRetain  = level.Retain
	KindExpire  = level.Expire
	KindMember  = level.Member
	KindLevel   = level.Raising
	KindRules   = level.Rules
	KindFloors  = level.Floors
	KindDrop    = level.Drop
)

// Every entry starts with 8 bytes: kind, version of that kind, zeros. What
// follows is drawn in docs/formats.md.
const (
	entryHeadBytes    = 8
	entryVersion      = 1
	genesisEntryBytes = entryHeadBytes + 32
	publishHeadBytes  = entryHeadBytes + 16
	// MaxBatches bounds the batches of one publish entry.
	MaxBatches = 1 << 16
)

// ClusterID names a cluster for ever.
type ClusterID [16]byte

// Genesis is the first command of a cluster: what all nodes must agree on.
type Genesis struct {
	// Cluster is not zero.
	Cluster ClusterID
	// SegmentBytes is the size of records at which a segment is cut; above 0.
	SegmentBytes int64
	// ProducerRetention is in ns of stream time; 0 means for ever.
	ProducerRetention int64
}

// validate reports what a genesis breaks; a refusal is data.
func (g Genesis) validate() error {
	switch {
	case g.Cluster == ClusterID{}:
		return fmt.Errorf("%w: the cluster's id is zero", ErrBadGenesis)
	case g.SegmentBytes <= 0:
		return fmt.Errorf("%w: segments of %d bytes", ErrBadGenesis, g.SegmentBytes)
	case g.ProducerRetention < 0:
		return fmt.Errorf("%w: producer retention of %d ns", ErrBadGenesis, g.ProducerRetention)
	}
	return nil
}

// Entry is a decoded Raft entry. It shares the entry's bytes.
type Entry struct {
	Kind    Kind
	Genesis Genesis        // of KindGenesis
	Edit    segments.Edit  // of KindEdit
	Plan    Plan           // of KindPlan
	Abandon uint64         // of KindAbandon: index of the plan's entry
	Time    int64          // of KindPublish: the leader's clock, ns since 1970 UTC
	Batches [][]byte       // of KindPublish: encoded batches, not yet looked into
	Retain  Retention      // of KindRetain
	Expire  Expiry         // of KindExpire
	Member  members.Change // of KindMember
	Level   level.Mark     // of KindLevel
	Rules   kept.Change    // of KindRules
	Floors  kept.Rise      // of KindFloors
	Drop    Drop           // of KindDrop
}

// EncodeGenesis makes the Raft entry of a genesis.
func EncodeGenesis(g Genesis) []byte {
	b := appendEntryHead(make([]byte, 0, genesisEntryBytes), KindGenesis)
	return appendGenesis(b, g)
}

// EncodePublish makes the Raft entry of admitted batches. now is the leader's
// clock in ns since 1970 UTC. The batches are copied; there are at most MaxBatches.
func EncodePublish(now int64, batches [][]byte) []byte {
	if len(batches) > MaxBatches {
		panic(fmt.Sprintf("raftfsm: an entry of %d batches, at most %d are allowed", len(batches), MaxBatches))
	}
	n := publishHeadBytes
	for _, b := range batches {
		n += len(b)
	}
	b := appendEntryHead(make([]byte, 0, n), KindPublish)
	b = binary.LittleEndian.AppendUint64(b, uint64(now))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(batches)))
	for _, batch := range batches {
		b = append(b, batch...)
	}
	return b
}

// EncodeEdit makes the Raft entry of an edit of the manifest.
func EncodeEdit(e segments.Edit) []byte {
	return append(appendEntryHead(nil, KindEdit), e.Encode()...)
}

// DecodeEntry splits an entry into its parts. The batches' borders are checked,
// their contents are not. Errors wrap ErrNewer or ErrCorrupt.
func DecodeEntry(b []byte) (Entry, error) {
	var e Entry
	return e, e.decode(b, level.Built())
}

// decode is DecodeEntry, for a build that reads these levels, into an Entry whose Batches
// slice is used again.
func (e *Entry) decode(b []byte, own level.Range) error {
	*e = Entry{Batches: e.Batches[:0]}
	if len(b) < entryHeadBytes {
		return fmt.Errorf("%w: entry of %d bytes", ErrCorrupt, len(b))
	}
	e.Kind = Kind(b[0])
	if e.Kind == 0 || b[1] == 0 {
		return fmt.Errorf("%w: entry of kind %d, version %d", ErrCorrupt, b[0], b[1])
	}
	if since, known := e.Kind.Since(); !known || since > own.Highest {
		return fmt.Errorf("%w: a command of %v came with a later level than %d, the highest that this build reads", ErrNewer, e.Kind, own.Highest)
	}
	if last := e.Kind.Versions(own.Highest); b[1] > last {
		return fmt.Errorf("%w: entry %v has version %d, known up to %d", ErrNewer, e.Kind, b[1], last)
	}
	if [6]byte(b[2:8]) != [6]byte{} {
		return fmt.Errorf("%w: reserved bytes of entry %v are not zero", ErrCorrupt, e.Kind)
	}
	body := b[entryHeadBytes:]
	switch e.Kind {
	case KindGenesis:
		if len(b) != genesisEntryBytes {
			return fmt.Errorf("%w: genesis of %d bytes, want %d", ErrCorrupt, len(b), genesisEntryBytes)
		}
		e.Genesis = readGenesis(body)
		return nil
	case KindPublish:
		return e.decodePublish(body)
	case KindEdit:
		var err error
		if len(body) >= 8 && level.Of(b) > own.Highest {
			return fmt.Errorf("%w: an edit like this came with a later level than %d, the highest that this build reads", ErrNewer, own.Highest)
		}
		switch e.Edit, err = segments.DecodeEdit(body); {
		case errors.Is(err, segments.ErrNewer):
			return fmt.Errorf("%w: edit: %w", ErrNewer, err)
		case err != nil:
			return fmt.Errorf("%w: edit: %w", ErrCorrupt, err)
		}
		return nil
	}
	if err := e.decodeValue(b[1], body); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// decodeValue reads the body of a command that a room of its own encodes.
func (e *Entry) decodeValue(version byte, b []byte) (err error) {
	switch e.Kind {
	case KindPlan:
		e.Plan, err = plans.Decode(b, version >= level.ChaptersPlan)
	case KindAbandon:
		if len(b) != 8 {
			return fmt.Errorf("abandon of %d bytes", entryHeadBytes+len(b))
		}
		e.Abandon = binary.LittleEndian.Uint64(b)
	case KindRetain:
		e.Retain, err = retention.DecodePolicy(b)
	case KindExpire:
		e.Expire, err = retention.DecodeExpiry(b)
	case KindMember:
		e.Member, err = members.DecodeChange(b)
	case KindLevel:
		e.Level, err = level.DecodeMark(b)
	case KindRules:
		e.Rules, err = kept.DecodeChange(b)
	case KindFloors:
		e.Floors, err = kept.DecodeRise(b)
	case KindDrop:
		e.Drop, err = drops.Decode(b)
	}
	return err
}

func (e *Entry) decodePublish(b []byte) error {
	if len(b) < publishHeadBytes-entryHeadBytes {
		return fmt.Errorf("%w: publish of %d bytes is cut", ErrCorrupt, len(b))
	}
	e.Time = int64(binary.LittleEndian.Uint64(b))
	count := binary.LittleEndian.Uint64(b[8:])
	b = b[16:]
	if count > MaxBatches {
		return fmt.Errorf("%w: publish of %d batches: at most %d are allowed", ErrCorrupt, count, MaxBatches)
	}
	for i := range count {
		n, ok := message.BatchBytes(b)
		if !ok {
			return fmt.Errorf("%w: batch %d of %d overruns its entry", ErrCorrupt, i, count)
		}
		e.Batches = append(e.Batches, b[:n:n])
		b = b[n:]
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: publish has %d bytes too many", ErrCorrupt, len(b))
	}
	return nil
}

func appendEntryHead(b []byte, k Kind) []byte {
	return append(b, byte(k), entryVersion, 0, 0, 0, 0, 0, 0)
}

const genesisBytes = genesisEntryBytes - entryHeadBytes

func appendGenesis(b []byte, g Genesis) []byte {
	b = append(b, g.Cluster[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(g.SegmentBytes))
	return binary.LittleEndian.AppendUint64(b, uint64(g.ProducerRetention))
}

func readGenesis(b []byte) Genesis {
	return Genesis{
		Cluster:           ClusterID(b[:16]),
		SegmentBytes:      int64(binary.LittleEndian.Uint64(b[16:])),
		ProducerRetention: int64(binary.LittleEndian.Uint64(b[24:])),
	}
}
