package tip

import (
	"unsafe"

	"chorale/tip/prefetch"
	"chorale/tip/radix"
)

// The plan chooses between the two ways of finding messages by what they cost, in
// nanoseconds as measured by `chorale bench tip` (docs/benchmarks.md); only their
// ratios matter.
const (
	// Of the linear pass: a message, a byte of it, a byte that is copied, and the end
	// of a run of wanted ones, which the processor cannot foresee, less what it
	// would have waited for memory meanwhile.
	costPass      = 3.1
	costPassByte  = 0.018
	costCopyByte  = 0.050
	costBreak     = 23
	costBreakByte = 0.077
	// Of the index: an entry that is looked at, the step to the next block, a message
	// that is wanted, a byte of it, a partition once a window, and the first place in
	// a partition's index.
	costEntry     = 1.5
	costBlock     = 420
	costFetch     = 15
	costFetchByte = 0.035
	costVisit     = 18
	costFind      = 150
)

const (
	// windowWanted is how many wanted messages a window should hold, so that their
	// positions fit the fast caches; but windowVisit for each partition, so that a
	// visit pays.
	windowWanted = 8192
	windowVisit  = 8
	// windowGrowth bounds how much longer, or shorter, than the last a window is.
	windowGrowth = 8
	// maxWindow keeps positions within a window below 1<<32.
	maxWindow = 1 << 31
)

// weighed is how many partitions are asked for their sizes, about.
const weighed = 4096

// nearlyAll is a density from which on records are read one behind the other either way.
const nearlyAll = 0.95

// unknown is a density that was neither measured nor guessed.
const unknown = -1

// plan is what a reader knows about the messages ahead.
type plan struct {
	// density is the wanted part of the messages; looked is how many index entries
	// are looked at for a message of the ring.
	//
	//	density <= looked
	density, looked float64
	// window is the length of the next window, in units; 0 means one chunk. aim is
	// how many wanted messages it should hold.
	window, aim float64
}

// settled is how many messages say all about the density; less say their share.
const settled = 4096

// saw notes how many of some messages were wanted.
func (p *plan) saw(messages, wanted int) {
	density := float64(wanted) / float64(max(messages, 1))
	if p.density != unknown {
		density = p.density + (density-p.density)*min(float64(messages)/settled, 1)
	}
	p.density = density
}

// searched notes what the index gave for a window of units.
func (p *plan) searched(units uint64, messages, entries, wanted int) {
	p.saw(messages, wanted)
	if messages >= settled {
		p.looked = float64(entries) / float64(messages)
	}
	growth := p.aim / float64(max(wanted, 1))
	p.resize(float64(units) * min(max(growth, 1.0/windowGrowth), windowGrowth))
}

// resize sets the length of the next window. One that needs a digit more to be
// sorted should be worth it.
func (p *plan) resize(units float64) {
	p.window = min(units, maxWindow)
	if units > radix.TwoDigits && units < 4*radix.TwoDigits {
		p.window = radix.TwoDigits
	}
}

// ahead is what lies between a reader and the head.
type ahead struct {
	messages, stride float64 // bytes a message
	partitions       float64 // wanted
}

// indexed decides how the messages up to the head are found.
func (r *Reader) indexed(head, end uint64) bool {
	p := &r.plan
	a := ahead{messages: float64(head - r.scanned), partitions: float64(len(r.sel.Partitions()))}
	a.stride = float64(end-r.at) * unitBytes / a.messages
	p.aim = max(windowWanted, windowVisit*a.partitions)
	if p.density != unknown {
		return r.method == Indexed || r.method == Planned && r.cheaper(a)
	}
	if r.method == Planned && a.messages*costPass < a.partitions*costVisit {
		return false
	}
	r.weigh(head)
	index := r.cheaper(a)
	if !index {
		// Perhaps not all of those partitions is wanted. How much is not known, but
		// looking at entries is cheap: the first window tells.
		p.density *= r.covered()
		index = r.cheaper(a)
	}
	if p.density > 0 {
		p.resize(p.aim / p.density * a.stride / unitBytes)
	}
	return r.method == Indexed || r.method == Planned && index
}

// cheaper reports whether the indexes cost less than a pass. Where nearly everything is
// wanted they cannot: they lead to the same records.
func (r *Reader) cheaper(a ahead) bool {
	p := &r.plan
	if p.density > nearlyAll {
		return false
	}
	visits := costVisit * (1 + a.messages*p.density/p.aim)
	if r.gathered != r.at {
		visits += costFind
	}
	size := r.tip.index.pool.sizes.of(int(p.looked * a.messages / a.partitions))
	entry := costEntry + costBlock/float64(size)
	index := a.partitions*visits + a.messages*(p.looked*entry+p.density*(costFetch+costFetchByte*a.stride))
	breaks := p.density * (1 - p.density) * max(costBreak-costBreakByte*a.stride, 0)
	return index < a.messages*(costPass+costPassByte*a.stride+p.density*costCopyByte*a.stride+breaks)
}

// weigh guesses the density from the sizes of the wanted partitions' indexes, as if
// all of them was wanted. Of very many partitions it asks some.
func (r *Reader) weigh(head uint64) {
	ids, x := r.sel.Partitions(), &r.tip.index
	ring := float64(head + 1 - min(r.tip.floorSeq.Load(), head))
	step := 1 + len(ids)/weighed
	for i := 0; i < len(ids); i += step {
		prefetch.Line(unsafe.Pointer(x.partition(ids[i])))
	}
	for i := 0; i < len(ids); i += step {
		if p := x.partition(ids[i]); p != nil {
			prefetch.Line(unsafe.Pointer(p.newest.Load()))
			prefetch.Line(unsafe.Pointer(p.oldest.Load()))
		}
	}
	held, whole := 0, r.tip.floorPosition.Load() == 0
	for i := 0; i < len(ids); i += step {
		if p := x.partition(ids[i]); p != nil {
			held += p.held(whole)
		}
	}
	r.plan.looked = min(float64(held*step)/ring, 1)
	r.plan.density = r.plan.looked
}

// covered is about the part of the wanted partitions of which everything is wanted.
func (r *Reader) covered() float64 {
	ids := r.sel.Partitions()
	covered, asked := 0, 0
	for i := 0; i < len(ids); i += 1 + len(ids)/16 {
		asked++
		if r.sel.PartitionCovered(ids[i]) {
			covered++
		}
	}
	return float64(covered) / float64(max(asked, 1))
}
