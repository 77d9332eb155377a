package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"time"

	"chorale/disk"
	"chorale/raftfsm"
)

// format is the newest version of the description that is known.
const format = 1

// maxDescription bounds the file: it is some hundred bytes.
const maxDescription = 64 << 10

var (
	// ErrDamaged marks a backup whose bytes are not what was written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrNewer marks a backup that a newer version of the program made.
	ErrNewer = errors.New("a newer version of chorale made this backup: use that version")
	// ErrNone is returned where there is no complete backup.
	ErrNone = errors.New("no backup")
)

// Description is what backup.json says.
type Description struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster_id"` // 32 hexadecimal digits
	// Seq and Time are of the newest message; Time is zero without one. OldestSeq is that of
	// the oldest one that is kept.
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	OldestSeq uint64    `json:"oldest_seq"`
	Topics    uint32    `json:"topics"`
	Producers int       `json:"producers"`
	// Files and Bytes are of the data files, State is the one with all else.
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"`
	State StateFile `json:"state"`
	// When the backup was finished, by which version, and whose state it is.
	Taken   time.Time `json:"taken_at"`
	Node    string    `json:"taken_from"`
	Version string    `json:"taken_by"`
	// Sum is the SHA-256 of the file as it is with an empty sum.
	Sum string `json:"sum"`
}

// StateFile names the file with the replicated state.
type StateFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// describe is the description of a state that was read.
func describe(s *raftfsm.Saved, file StateFile) Description {
	d := Description{
		Format: format, Cluster: hex.EncodeToString(s.Genesis.Cluster[:]), Seq: s.LastSeq, OldestSeq: s.Manifest.Oldest(),
		Topics: s.Topics, Producers: s.Producers, Files: len(s.Manifest.Files), State: file,
	}
	if s.LastSeq > 0 {
		d.Time = time.Unix(0, s.LastTime).UTC()
	}
	for _, f := range s.Manifest.Files {
		d.Bytes += f.Bytes
	}
	return d
}

func (d Description) marshal() []byte {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("backup: %v", err)) // there is nothing in it that has no JSON
	}
	return append(b, '\n')
}

// encode seals the description and returns its file.
func (d Description) encode() []byte {
	d.Sum = ""
	sum := sha256.Sum256(d.marshal())
	d.Sum = hex.EncodeToString(sum[:])
	return d.marshal()
}

// decode is the inverse of encode. The error wraps ErrDamaged or ErrNewer.
func decode(b []byte) (Description, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Description{}, fmt.Errorf("%w: %s: %w", ErrDamaged, descriptionFile, err)
	}
	if head.Format > format {
		return Description{}, fmt.Errorf("%w: %s has format %d, known up to %d", ErrNewer, descriptionFile, head.Format, format)
	}
	var d Description
	if err := json.Unmarshal(b, &d); err != nil {
		return Description{}, fmt.Errorf("%w: %s: %w", ErrDamaged, descriptionFile, err)
	}
	if d.Format != format || !bytes.Equal(d.encode(), b) {
		return Description{}, fmt.Errorf("%w: the checksum of %s does not match", ErrDamaged, descriptionFile)
	}
	return d, nil
}

// readDescription returns nil where there is none.
func readDescription(fsys disk.FS) (*Description, error) {
	b, err := readFile(fsys, descriptionFile, maxDescription)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := decode(b)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// readFile reads a small file.
func readFile(fsys disk.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are possible", ErrDamaged, name, size, limit)
	}
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	if size == 0 {
		err = nil
	}
	return b, err
}

// openState reads and checks the state that a description leads to.
func openState(fsys disk.FS, d Description) (*raftfsm.Saved, error) {
	saved, file, err := readState(fsys, d.State.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, d.State.Name)
	case err != nil:
		return nil, err
	}
	own := describe(saved, file)
	own.Taken, own.Node, own.Version, own.Sum = d.Taken, d.Node, d.Version, d.Sum
	if !bytes.Equal(own.encode(), d.encode()) {
		return nil, fmt.Errorf("%w: %s is not the state that %s describes", ErrDamaged, d.State.Name, descriptionFile)
	}
	return saved, nil
}

// readState reads a state and hashes its file, to its end.
func readState(fsys disk.FS, name string) (*raftfsm.Saved, StateFile, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, StateFile{}, err
	}
	defer f.Close()
	sum := &hashing{r: io.NewSectionReader(f, 0, math.MaxInt64), hash: sha256.New()}
	saved, err := raftfsm.ReadSaved(sum)
	switch {
	case errors.Is(err, raftfsm.ErrNewer):
		return nil, StateFile{}, fmt.Errorf("%w: %s: %w", ErrNewer, name, err)
	case errors.Is(err, raftfsm.ErrCorrupt):
		return nil, StateFile{}, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	case err != nil:
		return nil, StateFile{}, err
	}
	return saved, StateFile{Name: name, Bytes: sum.bytes, SHA256: hex.EncodeToString(sum.hash.Sum(nil))}, nil
}

// hashing hashes what is read through it.
type hashing struct {
	r     io.Reader
	hash  hash.Hash
	bytes int64
}

// Read implements io.Reader.
func (h *hashing) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	_, _ = h.hash.Write(b[:n])
	h.bytes += int64(n)
	return n, err
}
