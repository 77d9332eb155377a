package pace

import (
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	var p Pace
	expect := func(files, memory Rate) {
		t.Helper()
		if f, m := p.Rates(); f != files || m != memory {
			t.Fatalf("%+v and %+v, want %+v and %+v", f, m, files, memory)
		}
	}
	expect(Rate{filesRate, false}, Rate{memoryRate, false})
	p.Files(enough-1, time.Second)
	p.Memory(leastFromMemory-1, time.Hour) // a live message
	expect(Rate{filesRate, false}, Rate{memoryRate, false})
	p.Files(1, time.Second)
	p.Memory(enough, time.Second/2)
	expect(Rate{enough / 2, true}, Rate{2 * enough, true})
	for range 100 { // what was long ago fades
		p.Files(fade, time.Second)
	}
	if f, _ := p.Rates(); f.BytesPerSecond < 0.99*fade || f.Time(fade) < time.Second {
		t.Fatalf("%+v", f)
	}
	var virtual Pace
	virtual.Files(fade, 0)
	if f, _ := virtual.Rates(); f.Measured {
		t.Fatalf("%+v in no time", f)
	}
}
