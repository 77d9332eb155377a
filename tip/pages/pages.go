// Package pages gives memory outside of the garbage collector's heap, in large pages. A
// recovery touches records all over the ring: with small pages the processor would miss
// its tables as often as its cache, and the collector would let garbage grow to the size
// of the ring.
package pages

// Large is what the kernel can map by one entry of its tables.
const Large = 2 << 20
