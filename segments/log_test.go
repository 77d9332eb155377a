package segments

import (
	"math/rand/v2"
	"testing"

	"chorale/disk"
)

func TestReadAcrossFilesAndMemory(t *testing.T) {
	s := newStream(t, disk.NewMem(1).Mount())
	s.log.SetTarget(20_000)
	pick := picker(rand.New(rand.NewPCG(1, 2)), 200)
	for i := range 200 {
		s.entry(7, pick)
		check(t, s.log.CutIfFull())
		if i%50 == 20 {
			s.build(t)
		}
	}
	if len(s.log.Manifest().Files) == 0 || s.log.Manifest().End() == s.log.End() {
		t.Fatal("the test wants files and memory")
	}
	for _, after := range []uint64{0, 1, 100, 777, 1399, 1400} {
		for _, limit := range []int{1, 1000, 1 << 20} {
			s.expect(t, after, limit, "**")
			s.expect(t, after, limit, "a")
			s.expect(t, after, limit, "a/**")
			s.expect(t, after, limit, "a/*/c1", "x2/**")
			s.expect(t, after, limit, "nothing/here")
		}
	}
}
