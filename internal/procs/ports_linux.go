package procs

import "syscall"

// reserved is a port that a socket of this process is bound to, without listening. Linux gives
// such a port to nobody who asks for any, and to no outgoing connection; but who asks for this
// one may listen there, as soon as the socket says that it shares its address.
type reserved struct{ fd int }

// reserve reserves a port on all addresses of IPv4, 0 for any.
func reserve(port int) (*reserved, int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	at, err := bind(fd, port)
	if err != nil {
		syscall.Close(fd)
		return nil, 0, err
	}
	return &reserved{fd}, at, nil
}

// bind binds the socket to a port that nobody has, and shares it then: in this order, or two
// could reserve the same one.
func bind(fd, port int) (int, error) {
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port}); err != nil {
		return 0, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return at.(*syscall.SockaddrInet4).Port, nil
}

// hand leaves the port to whoever is told its number.
func (r *reserved) hand() {}

func (r *reserved) giveUp() { syscall.Close(r.fd) }
