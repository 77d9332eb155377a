package procs

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReserved: while nobody listens on a port that was given away, it is not reserved again,
// and no outgoing connection begins at it, not even one that may begin nowhere else.
func TestReserved(t *testing.T) {
	addrs, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := portOf(t, addrs[0])
	if _, _, err := reserve(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("reserved again: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		inner := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, ipLocalPortRange, port<<16|port)
		})
		return errors.Join(inner, err)
	}}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	switch {
	case errors.Is(err, syscall.ENOPROTOOPT):
		t.Log("Linux before 6.3 does not let a connection choose from a range")
	case err == nil:
		t.Errorf("a connection begins at %v", c.LocalAddr())
		c.Close()
	case !errors.Is(err, syscall.EADDRNOTAVAIL):
		t.Error(err)
	}
}

// ipLocalPortRange is IP_LOCAL_PORT_RANGE: the highest port, and in the low half the lowest.
const ipLocalPortRange = 51
