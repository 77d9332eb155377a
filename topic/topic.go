// Package topic owns names: their rules, partitions, filters and matching, and
// the interning of names as small numbers.
package topic

const (
	// MaxLevels bounds the levels of a name, MaxBytes its length.
	MaxLevels = 32
	MaxBytes  = 1024
)

// Validate reports what a name breaks: 1 to 32 levels parted by slashes, none
// empty, 1 to 1,024 bytes of valid UTF-8, no control character, no '*'.
func Validate(name string) error { panic("contract") }

// Partition is the first two levels of a valid name, or all of a shorter one.
func Partition(name string) string { panic("contract") }

// Filters is a compiled, immutable set of filters. Safe for concurrent use.
type Filters struct{}

// ParseFilters compiles a set; the error names the bad filter and the rule.
func ParseFilters(list ...string) (*Filters, error) { panic("contract") }

// Match costs the depth of the name, not the number of filters.
func (f *Filters) Match(name string) bool { panic("contract") }

// All reports whether every topic matches.
func (f *Filters) All() bool { panic("contract") }

// Canonical lists the filters sorted, without those that others cover.
func (f *Filters) Canonical() []string { panic("contract") }

// Table interns names and their partitions. Ids are dense, from 0, in the order
// of Intern. One goroutine interns; any number read without a lock.
type Table struct{}

// NewTable returns an empty table.
func NewTable() *Table { panic("contract") }

// Intern returns the id of a valid name and whether it is new. It keeps no
// reference to the bytes. One goroutine at a time.
func (t *Table) Intern(name []byte) (id uint32, fresh bool) { panic("contract") }

// Lookup finds the id of a name.
func (t *Table) Lookup(name string) (id uint32, ok bool) { panic("contract") }

// Name is the name of an id below Len.
func (t *Table) Name(id uint32) string { panic("contract") }

// Len is the number of topics.
func (t *Table) Len() uint32 { panic("contract") }

// Partition is the partition id of a topic.
func (t *Table) Partition(id uint32) uint32 { panic("contract") }

// Partitions is the number of partitions; ids are dense from 0.
func (t *Table) Partitions() uint32 { panic("contract") }

// PartitionName is the name of a partition.
func (t *Table) PartitionName(p uint32) string { panic("contract") }

// Selection is a set of filters over a table, for one reader: it remembers what
// it found out about ids and grows with the table. For one goroutine.
type Selection struct{}

// NewSelection costs no walk over the topics; for filters whose first two levels
// are literal, not even one over the partitions.
func NewSelection(t *Table, f *Filters) *Selection { panic("contract") }

// Match reports whether the topic with this id is wanted.
func (s *Selection) Match(id uint32) bool { panic("contract") }

// All reports whether every topic is wanted.
func (s *Selection) All() bool { panic("contract") }

// Partitions lists the ids of all partitions, known to the table now, that may
// hold a wanted topic, ascending. The slice is valid until the next call.
func (s *Selection) Partitions() []uint32 { panic("contract") }

// PartitionCovered reports whether every topic of the partition is wanted, so
// that a reader need not ask for each message.
func (s *Selection) PartitionCovered(p uint32) bool { panic("contract") }
