package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	prefix = 24
	// mostNetworks is how many networks a program makes.
	mostNetworks = 250
	// most is how many addresses a network gives out, those of hosts that moved among them.
	most = 250
)

// networks is how many were made. Each has devices and addresses of its own, so that several
// may be there at a time.
var networks atomic.Int32

// nowhere is the hardware address of nobody: what is sent there is lost, silently, as it
// is when a cable is pulled somewhere on the way.
var nowhere = net.HardwareAddr{0x02, 0xff, 0, 0, 0, 0}

// Network is a bridge and the hosts around it. Each host has a fixed table of the
// hardware addresses of all others, which is where cuts are made: a cut from one host to
// another is a wrong entry, so it needs no packet filter and no traffic control. For one
// goroutine.
type Network struct {
	number  byte
	clients *Host
	hosts   []*Host // clients first
	cut     map[[2]*Host]bool
	given   int // addresses
}

// New makes a network in the namespace of this program, which must be inside Enter.
func New() (_ *Network, err error) {
	number := networks.Add(1)
	if number > mostNetworks {
		return nil, fmt.Errorf("%d networks were made already", mostNetworks)
	}
	n := &Network{number: byte(number), cut: map[[2]*Host]bool{}}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	n.clients = &Host{network: n, name: "clients"}
	n.name(n.clients)
	if n.clients.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	n.hosts = append(n.hosts, n.clients)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = n.bridge(), n.clients.hardware
	if err := n.clients.handle.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return nil, fmt.Errorf("make a bridge: %w", err)
	}
	return n, n.clients.attach(n.bridge())
}

// bridge is the name of the device in the middle.
func (n *Network) bridge() string { return fmt.Sprintf("chorale%d", n.number) }

// Clients is where this program is.
func (n *Network) Clients() *Host { return n.clients }

// Host adds a host.
func (n *Network) Host() (_ *Host, err error) {
	if n.given == most {
		return nil, fmt.Errorf("all %d addresses are given", most)
	}
	h := &Host{network: n, calls: make(chan func()), ended: make(chan struct{})}
	n.name(h)
	h.name = h.addr.String()
	ready := make(chan error)
	go h.live(ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	n.hosts = append(n.hosts, h)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = fmt.Sprintf("port%d.%d", n.number, n.given)
	master, err := n.clients.handle.LinkByName(n.bridge())
	if err != nil {
		return nil, fmt.Errorf("the bridge: %w", err)
	}
	attrs.MasterIndex = master.Attrs().Index
	cable := netlink.NewVeth(attrs)
	cable.PeerName, cable.PeerHardwareAddr, cable.PeerNamespace = device, h.hardware, netlink.NsFd(h.space)
	if err := n.clients.handle.LinkAdd(cable); err != nil {
		return nil, fmt.Errorf("make a pair of devices: %w", err)
	}
	if h.port, err = n.clients.handle.LinkByName(attrs.Name); err != nil {
		return nil, fmt.Errorf("device %s: %w", attrs.Name, err)
	}
	if err := n.clients.handle.LinkSetUp(h.port); err != nil {
		return nil, fmt.Errorf("turn on device %s: %w", attrs.Name, err)
	}
	if err := h.attach(device); err != nil {
		return nil, err
	}
	for _, other := range n.hosts {
		if other != h {
			err = errors.Join(err, h.aim(other), other.aim(h))
		}
	}
	return h, errors.Join(err, awaitUp(h.handle, device), awaitUp(n.clients.handle, attrs.Name), awaitUp(n.clients.handle, n.bridge()))
}

// name gives the next addresses.
func (n *Network) name(h *Host) {
	n.given++
	h.addr = netip.AddrFrom4([4]byte{10, 77, n.number, byte(n.given)})
	h.hardware = net.HardwareAddr{0x02, 0, 10, 77, n.number, byte(n.given)}
}

// Cut loses what from sends to the other one, silently.
func (n *Network) Cut(from, to *Host) error {
	n.cut[[2]*Host{from, to}] = true
	return from.aim(to)
}

// Part cuts the groups off from each other, both ways; within a group nothing changes.
func (n *Network) Part(groups ...[]*Host) error {
	var err error
	for i, g := range groups {
		for j, other := range groups {
			for _, from := range g {
				for _, to := range other {
					if i != j {
						err = errors.Join(err, n.Cut(from, to))
					}
				}
			}
		}
	}
	return err
}

// Unplug cuts a host off from all others, the clients among them.
func (n *Network) Unplug(h *Host) error {
	var rest []*Host
	for _, other := range n.hosts {
		if other != h {
			rest = append(rest, other)
		}
	}
	return n.Part([]*Host{h}, rest)
}

// Heal ends all cuts.
func (n *Network) Heal() error {
	var err error
	for pair := range n.cut {
		delete(n.cut, pair)
		err = errors.Join(err, pair[0].aim(pair[1]))
	}
	return err
}

// Close takes the network away. What runs on its hosts is killed.
func (n *Network) Close() error {
	var err error
	for _, h := range slices.Backward(n.hosts) { // the bridge last
		err = errors.Join(err, h.close())
	}
	return err
}
