package procs

import (
	"errors"
	"fmt"
)

// firstPorts is how many beginnings of a row are tried, if others listen in its way.
const firstPorts = 100

// FreePorts finds n addresses of loopback, with ports in a row, that nothing listens on.
// Where the system can reserve a port (Linux), they stay this process's until it ends:
// nothing gets one of them by chance, not even while the node whose it is does not run.
func FreePorts(n int) ([]string, error) {
	for range firstPorts {
		row, err := reserveRow(n)
		if err != nil {
			return nil, err
		}
		if len(row) == n {
			return row, nil
		}
	}
	return nil, errors.New("no free ports in a row")
}

// reserveRow reserves ports from any on, until one is taken: n, or fewer. Those of a row
// that is too short are given back.
func reserveRow(n int) (row []string, err error) {
	var held []*reserved
	for port := 0; len(row) < n; port++ {
		r, at, err := reserve(port)
		if err != nil && len(held) == 0 {
			return nil, err
		}
		if err != nil {
			break
		}
		held, port = append(held, r), at
		row = append(row, fmt.Sprintf("127.0.0.1:%d", port))
	}
	for _, r := range held {
		if len(row) < n {
			r.giveUp()
		} else {
			r.hand()
		}
	}
	return row, nil
}
