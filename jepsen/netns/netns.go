// Package netns makes a small network in which every host has a network namespace and
// an address of its own, so that real processes can be cut off from each other, one way
// too, and can move.
//
// A program enters a namespace of its own first: Enter runs it again in one. The bridge
// lies there, and so do the clients: nothing of the machine's own network is seen or
// changed. A namespace lives as long as the processes in it and has no name, and a
// process of a host is killed when the program dies, however that happens: so nothing
// stays behind. Neither root nor a program beside this one is needed where a user may
// make namespaces.
package netns

// variable tells a program that it was run again, and what for.
const variable = "CHORALE_TEST_NAMESPACE"

// missing is why this program is in no namespace of its own.
var missing error

// Missing says what the machine lacks if the program, which called Enter, could not be
// run in a namespace of its own; it is nil inside of one.
func Missing() error { return missing }
