// Package history records what clients asked of a cluster and what they were
// told, so that a checker can judge it afterwards without having been there.
//
// A history is a list of units (what a publisher wanted stored), attempts (each
// time a unit was sent, and the answer), reads (what a subscriber was delivered)
// and faults (what the nemesis did, for the person who reads a finding). Moments
// are ticks of one logical clock: if a return is before an invoke, the first
// operation was over before the second began.
package history

import "fmt"

// Unit is what a publisher wants stored as one: all of its messages or none.
type Unit struct {
	Client   int     `json:"client"`
	Number   uint64  `json:"number,omitempty"` // producer number; 0 from a publisher without an identity
	Messages []Draft `json:"messages"`
}

// Draft is one message of a unit. Bodies are unique over a whole history: that is
// how a message of the stream is traced to its unit.
type Draft struct {
	Topic    string  `json:"topic"`
	Body     []byte  `json:"body"`               // headers and payload as encoded
	Expected *uint64 `json:"expected,omitempty"` // the topic's last seq must be this
}

// Result is what a publisher was told of a unit.
type Result string

// The results. Only Stored, Duplicate and Refused are final answers.
const (
	Stored          Result = "stored"           // it has Seq
	Duplicate       Result = "duplicate"        // an earlier attempt got Seq
	Forgotten       Result = "forgotten"        // decided earlier, outcome forgotten
	Refused         Result = "refused"          // condition of message Index: its topic's last seq is Seq
	Gap             Result = "gap"              // the producer's next number is Seq
	ProducerUnknown Result = "producer unknown" // must start with number 1
	Failed          Result = "failed"           // was not stored and will not be by this attempt
	Unknown         Result = "unknown"          // may or may not be stored
)

// Attempt is one time that a unit was sent. Return is 0 while no answer came.
type Attempt struct {
	Unit   int    `json:"unit"` // index into History.Units
	Node   string `json:"node"`
	Invoke uint64 `json:"invoke"`
	Return uint64 `json:"return,omitempty"`
	Result Result `json:"result"`
	Seq    uint64 `json:"seq,omitempty"`
	Index  uint32 `json:"index,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Message is one message as a reader saw it.
type Message struct {
	Seq   uint64 `json:"seq"`
	Prev  uint64 `json:"prev"` // seq of the topic's previous message
	Time  int64  `json:"time"` // ns since 1970 UTC
	Topic string `json:"topic"`
	Body  []byte `json:"body"`
}

// String is short: a finding names messages.
func (m Message) String() string {
	return fmt.Sprintf("seq %d (prev %d, time %d, %s, %d bytes)", m.Seq, m.Prev, m.Time, m.Topic, len(m.Body))
}

// Read is one session of a reader: it was promised everything that Filters match
// in (After, To]. Sessions of one reader continue each other, in the order of the
// history.
type Read struct {
	Reader   int       `json:"reader"`
	Node     string    `json:"node"`
	Filters  []string  `json:"filters"`
	FromTime int64     `json:"fromTime,omitempty"` // if set, where the first session asked to start
	Oldest   uint64    `json:"oldest,omitempty"`   // the oldest kept seq when it began, as the node said
	After    uint64    `json:"after"`
	To       uint64    `json:"to"` // the last resume position
	Messages []Message `json:"messages"`
	// Gone are the floors that the node knew when the session began, Floors those that the
	// session was told.
	Gone   []Floor `json:"gone,omitempty"`
	Floors []Floor `json:"floors,omitempty"`
}

// Floor says that everything before Seq has gone of the topics that a filter matches.
type Floor struct {
	Filter string `json:"filter"`
	Seq    uint64 `json:"seq"`
}

// Fault is one thing that was done to the cluster.
type Fault struct {
	At   uint64 `json:"at"`   // logical clock
	Time int64  `json:"time"` // ns, of the clock on the wall or of the simulation
	Text string `json:"text"`
}

// History is everything that happened to the clients of one run.
type History struct {
	Units    []Unit
	Attempts []Attempt
	Reads    []Read
	Faults   []Fault
}
