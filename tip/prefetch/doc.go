// Package prefetch asks the processor for memory before it is used. A recovery
// touches records all over the ring: with the misses of the next records under way
// while the last ones are copied, it runs several times as fast as without. The
// compiler offers no such instruction, hence the few lines of assembly; on other
// processors than amd64 and arm64 the functions do nothing.
package prefetch
