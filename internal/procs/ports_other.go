//go:build !linux

package procs

import (
	"fmt"
	"net"
)

// reserved is a port that is listened on until it is handed over.
type reserved struct{ listener net.Listener }

// reserve takes a port of loopback, 0 for any.
func reserve(port int) (*reserved, int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, 0, err
	}
	return &reserved{l}, l.Addr().(*net.TCPAddr).Port, nil
}

// hand leaves the port to whoever is told its number: nothing but chance keeps it free.
func (r *reserved) hand() { r.listener.Close() }

func (r *reserved) giveUp() { r.listener.Close() }
