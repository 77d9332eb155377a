package disk_test

import (
	"fmt"
	"io"

	"chorale/disk"
)

// A file that was written by WriteFile is there after a crash; one that was only
// created is at the mercy of the seed. Faults are lines of text.
func ExampleMem() {
	m := disk.NewMem(7)
	files := m.Mount() // as one process sees it, until the power goes
	check(files.MkdirAll("data"))
	check(disk.WriteFile(files, "data", "kept", func(w io.Writer) error {
		_, err := io.WriteString(w, "safe and sound")
		return err
	}))
	_, err := files.Create("data/loose")
	check(err)
	fmt.Println(m.Unsynced())
	m.Crash()

	_, err = files.Open("data/kept")
	fmt.Println(err)
	b, err := m.ReadFile("data/kept")
	fmt.Println(string(b), err)

	check(m.Fault("on create *.tmp fail ENOSPC"))
	fmt.Println(disk.WriteFile(m.Mount(), "data", "more", func(io.Writer) error { return nil }))
	// Output:
	// [data/]
	// open data/kept: the power was lost: file already closed
	// safe and sound <nil>
	// write data/more: create data/more.tmp: no space left on device
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
