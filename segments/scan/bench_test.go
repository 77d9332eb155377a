package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// BenchmarkOrder finds where an array over all seqs of a window overtakes sorting:
// denseShare.
func BenchmarkOrder(b *testing.B) {
	const span = 1 << 15
	for _, share := range []int{2, 8, 16, 32, 64, 128} {
		refs := make([]uint64, span/share)
		for i, seq := range rand.New(rand.NewPCG(1, 1)).Perm(span)[:len(refs)] {
			refs[i] = uint64(seq) << 32
		}
		for name, order := range map[string]func(w *window){
			"array": func(w *window) { _ = w.byArray(0, span-1) },
			"sort":  func(w *window) { slices.Sort(w.refs) },
		} {
			b.Run(fmt.Sprintf("1of%d/%s", share, name), func(b *testing.B) {
				w := new(window)
				for b.Loop() {
					w.refs = append(w.refs[:0], refs...)
					order(w)
				}
			})
		}
	}
}
