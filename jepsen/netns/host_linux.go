package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// device is what a host calls its end of the cable.
	device = "eth0"
	// upWait bounds the wait for the kernel; a second is usual at worst.
	upWait = 10 * time.Second
)

// Host is a host of a network.
type Host struct {
	network  *Network
	name     string
	addr     netip.Addr
	hardware net.HardwareAddr
	handle   *netlink.Handle // of its namespace
	link     netlink.Link
	port     netlink.Link // the other end of the cable, at the bridge

	// A thread that is in the namespace; nil of the clients, whose every thread is.
	calls chan func()
	ended chan struct{}
	space int // the namespace, as an open file
}

// Addr is the host's address.
func (h *Host) Addr() netip.Addr { return h.addr }

// String is the address that the host had first.
func (h *Host) String() string { return h.name }

// live makes the namespace and does what is called for in it. The thread is never
// unlocked: it ends with the goroutine, and takes its children along.
func (h *Host) live(ready chan<- error) {
	defer close(h.ended)
	runtime.LockOSThread()
	err := func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if h.space, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("the new network namespace: %w", err)
		}
		if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("netlink: %w", err)
		}
		return loopback()
	}()
	ready <- err
	if err != nil {
		return
	}
	for call := range h.calls {
		call()
	}
}

// Do runs something in the host's namespace. What it starts in goroutines of its own is
// not there.
func (h *Host) Do(call func()) {
	if h.calls == nil {
		call()
		return
	}
	done := make(chan struct{})
	h.calls <- func() {
		defer close(done)
		call()
	}
	<-done
}

// Start starts a process on the host. It is killed when this program dies, or when the
// network is closed.
func (h *Host) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	var err error
	h.Do(func() { err = cmd.Start() })
	return err
}

// Reaches connects from the host to an address, which must be one of numbers.
func (h *Host) Reaches(ctx context.Context, address string) error {
	var err error
	h.Do(func() {
		var d net.Dialer
		var c net.Conn
		if c, err = d.DialContext(ctx, "tcp4", address); err == nil {
			err = c.Close()
		}
	})
	return err
}

// Move gives the host another address. At the old one nobody answers any more.
func (h *Host) Move() error {
	old := *h
	if h.network.given == most {
		return fmt.Errorf("all %d addresses are given", most)
	}
	h.network.name(h)
	h.hardware = old.hardware
	if err := h.handle.AddrDel(h.link, address(old.addr)); err != nil {
		return fmt.Errorf("take address %v: %w", old.addr, err)
	}
	if err := h.handle.AddrAdd(h.link, address(h.addr)); err != nil {
		return fmt.Errorf("give address %v: %w", h.addr, err)
	}
	for _, other := range h.network.hosts {
		if other == h {
			continue
		}
		if err := other.entry(old.addr, nowhere); err != nil {
			return err
		}
		if err := other.aim(h); err != nil {
			return err
		}
	}
	return nil
}

func address(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(prefix, 32)}}
}

// attach gives a device the host's address and turns it on.
func (h *Host) attach(name string) (err error) {
	if h.link, err = h.handle.LinkByName(name); err != nil {
		return fmt.Errorf("device %s of %s: %w", name, h, err)
	}
	if err := h.handle.AddrAdd(h.link, address(h.addr)); err != nil {
		return fmt.Errorf("give address %v: %w", h.addr, err)
	}
	if err := h.handle.LinkSetUp(h.link); err != nil {
		return fmt.Errorf("turn on device %s of %s: %w", name, h, err)
	}
	return nil
}

// awaitUp returns when a device carries packets: the kernel turns it on in its own time, and
// what is sent before that is lost.
func awaitUp(handle *netlink.Handle, name string) error {
	for limit := time.Now().Add(upWait); ; time.Sleep(time.Millisecond) {
		link, err := handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("device %s is %v, and not up in %v", name, link.Attrs().OperState, upWait)
		}
	}
}

// aim brings the table of hardware addresses in line with what is cut.
func (h *Host) aim(to *Host) error {
	if h.network.cut[[2]*Host{h, to}] {
		return h.entry(to.addr, nowhere)
	}
	return h.entry(to.addr, to.hardware)
}

func (h *Host) entry(at netip.Addr, hardware net.HardwareAddr) error {
	err := h.handle.NeighSet(&netlink.Neigh{
		LinkIndex: h.link.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: at.AsSlice(), HardwareAddr: hardware,
	})
	if err != nil {
		return fmt.Errorf("how %s reaches %v: %w", h, at, err)
	}
	return nil
}

// close ends the host's thread, which ends what it started. The namespace goes with the
// last of them, in its own time; so the cable, whose name is needed again, is taken away.
func (h *Host) close() error {
	var err error
	if h.calls == nil {
		if h.link != nil {
			err = h.handle.LinkDel(h.link)
		}
	} else {
		if h.port != nil {
			err = h.network.clients.handle.LinkDel(h.port)
		}
		close(h.calls)
		<-h.ended
		unix.Close(h.space)
	}
	if h.handle != nil {
		h.handle.Close()
	}
	return err
}
