package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds what must come; brief is how long nothing must come.
const (
	patience = 30 * time.Second
	brief    = 300 * time.Millisecond
)

func TestMain(m *testing.M) {
	code, ran := Enter()
	if !ran {
		code = m.Run()
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// network makes one with some hosts.
func network(t *testing.T, hosts int) (*Network, []*Host) {
	t.Helper()
	if Missing() != nil {
		t.Skip(Missing())
	}
	n, err := New()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	var out []*Host
	for range hosts {
		h, err := n.Host()
		must(t, err)
		out = append(out, h)
	}
	return n, out
}

// listen takes connections on a host and lets them lie.
func listen(t *testing.T, h *Host) (address string, l net.Listener) {
	t.Helper()
	var err error
	h.Do(func() { l, err = net.Listen("tcp4", h.Addr().String()+":7000") })
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), l
}

func reaches(t *testing.T, from *Host, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := from.Reaches(ctx, address); err != nil {
		t.Errorf("from %s: %v", from, err)
	}
}

// silent asserts that nothing comes back: not even a refusal.
func silent(t *testing.T, from *Host, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	var e net.Error
	if err := from.Reaches(ctx, address); !errors.As(err, &e) || !e.Timeout() {
		t.Errorf("from %s to %s: got %v, want silence", from, address, err)
	}
}

// TestNetwork: hosts and clients reach each other, but for what is cut, until it is healed.
func TestNetwork(t *testing.T) {
	n, hosts := network(t, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	all := append(hosts, n.Clients())
	var at []string
	for _, h := range all {
		address, _ := listen(t, h)
		at = append(at, address)
	}
	check := func(what string, cut func(from, to *Host) bool) {
		for _, from := range all {
			for j, to := range all {
				switch {
				case from != to && (cut(from, to) || cut(to, from)):
					silent(t, from, at[j])
				default:
					reaches(t, from, at[j])
				}
			}
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	check("whole", func(from, to *Host) bool { return false })
	must(t, n.Part([]*Host{a}, []*Host{b, c}))
	check("parted", func(from, to *Host) bool { return from == a && (to == b || to == c) })
	must(t, n.Heal())
	must(t, n.Cut(b, c))
	check("one way", func(from, to *Host) bool { return from == b && to == c })
	must(t, n.Heal())
	must(t, n.Unplug(b))
	check("unplugged", func(from, to *Host) bool { return from == b })
	must(t, n.Heal())
	check("healed", func(from, to *Host) bool { return false })
}

// TestNetworks: networks that are there at a time have nothing to do with one another.
func TestNetworks(t *testing.T) {
	one, a := network(t, 2)
	two, b := network(t, 2)
	inOne, _ := listen(t, a[0])
	inTwo, _ := listen(t, b[0])
	must(t, one.Unplug(a[0]))
	for _, from := range []*Host{a[1], one.Clients()} {
		silent(t, from, inOne)
	}
	for _, from := range []*Host{b[1], two.Clients()} {
		reaches(t, from, inTwo)
	}
	must(t, one.Heal())
	reaches(t, a[1], inOne)
}

// packets opens a host for single packets.
func packets(t *testing.T, h *Host) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	var err error
	h.Do(func() { c, err = net.ListenPacket("udp4", h.Addr().String()+":7001") })
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// TestOneWay: what is sent across a cut is lost, not late; the other way all comes.
func TestOneWay(t *testing.T) {
	n, hosts := network(t, 2)
	a, b := packets(t, hosts[0]), packets(t, hosts[1])
	send := func(from, to net.PacketConn, text string) {
		t.Helper()
		_, err := from.WriteTo([]byte(text), to.LocalAddr())
		must(t, err)
	}
	comes := func(to net.PacketConn, text string) {
		t.Helper()
		buf := make([]byte, 100)
		k, _, err := to.ReadFrom(buf)
		must(t, err)
		if string(buf[:k]) != text {
			t.Fatalf("%q comes, want %q", buf[:k], text)
		}
	}
	must(t, n.Cut(hosts[0], hosts[1]))
	send(a, b, "lost")
	send(b, a, "the other way")
	comes(a, "the other way")
	must(t, n.Heal())
	send(a, b, "healed")
	comes(b, "healed")
}

// TestConnection: a connection lives through a cut.
func TestConnection(t *testing.T) {
	n, hosts := network(t, 1)
	address, l := listen(t, hosts[0])
	here, err := net.Dial("tcp4", address)
	must(t, err)
	defer here.Close()
	there, err := l.Accept()
	must(t, err)
	defer there.Close()
	must(t, n.Unplug(hosts[0]))
	_, err = here.Write([]byte("late\n"))
	must(t, err)
	must(t, there.SetReadDeadline(time.Now().Add(brief)))
	if _, err := there.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("across the cut: %v", err)
	}
	must(t, n.Heal())
	must(t, there.SetReadDeadline(time.Now().Add(patience)))
	if line, err := bufio.NewReader(there).ReadString('\n'); line != "late\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

// TestMove: a host that moved is reached at its new address alone, also after a cut.
func TestMove(t *testing.T) {
	n, hosts := network(t, 2)
	old, _ := listen(t, hosts[0])
	must(t, hosts[0].Move())
	address, _ := listen(t, hosts[0])
	if address == old {
		t.Fatalf("%s moved to where it was", old)
	}
	for _, from := range []*Host{hosts[1], n.Clients()} {
		reaches(t, from, address)
		silent(t, from, old)
	}
	must(t, n.Unplug(hosts[0]))
	silent(t, hosts[1], address)
	must(t, n.Heal())
	reaches(t, hosts[1], address)
}

// TestCloseKills: what runs on a host does not outlive the network.
func TestCloseKills(t *testing.T) {
	if Missing() != nil {
		t.Skip(Missing())
	}
	n, err := New()
	must(t, err)
	h, err := n.Host()
	must(t, err)
	sleeper := exec.Command("sleep", "1000")
	must(t, h.Start(sleeper))
	must(t, n.Close())
	var exit *exec.ExitError
	if err := sleeper.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
}

// orphans tells a copy of this program to start a process on a host and wait to be killed.
const orphans = "CHORALE_TEST_ORPHANS"

// TestKilled: nothing stays behind a program that is killed.
func TestKilled(t *testing.T) {
	if os.Getenv(orphans) != "" {
		_, hosts := network(t, 1)
		sleeper := exec.Command("sleep", "1000")
		must(t, hosts[0].Start(sleeper))
		fmt.Printf("pid %d\n", sleeper.Process.Pid)
		sleeper.Wait()
		return
	}
	if Missing() != nil {
		t.Skip(Missing())
	}
	program := exec.Command("/proc/self/exe", "-test.run", "^TestKilled$", "-test.v")
	program.Env = append(os.Environ(), orphans+"=1", variable+"=") // so it enters as this one did
	out, err := program.StdoutPipe()
	must(t, err)
	must(t, program.Start())
	var sleeper int
	lines := bufio.NewScanner(out)
	for sleeper == 0 && lines.Scan() {
		fmt.Sscanf(lines.Text(), "pid %d", &sleeper)
	}
	name := func() string {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", sleeper))
		return string(b)
	}
	if !strings.HasPrefix(name(), "sleep") {
		t.Fatalf("process %d is %q", sleeper, name())
	}
	must(t, program.Process.Kill())
	for lines.Scan() { // until nobody has the other end
	}
	program.Wait()
	for limit := time.Now().Add(patience); strings.HasPrefix(name(), "sleep"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("process %d still runs", sleeper)
		}
	}
}
