package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
)

// What variable may say.
const (
	probing = "probe"
	running = "run"
)

// Enter runs the whole program again in a network namespace of its own, with the same
// arguments, and returns its exit code. Inside, and where the machine does not let it, it
// returns false at once, and the program goes on: Missing tells which of the two. To be
// called first, by the main goroutine.
func Enter() (code int, ran bool) {
	switch os.Getenv(variable) {
	case probing:
		if err := probe(); err != nil {
			fmt.Println(err)
			return 1, true
		}
		return 0, true
	case running:
		if err := loopback(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		return 0, false
	}
	// The child is told to die with the thread that started it.
	runtime.LockOSThread()
	var tried []error
	for _, flags := range spaces() {
		out, err := again(probing, flags).Output()
		if err == nil {
			child := again(running, flags)
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
			return exitCode(child.Run()), true
		}
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("the limits user.max_user_namespaces and user.max_net_namespaces (sysctl) allow no more: %w", err)
		}
		if said := strings.TrimSpace(string(out)); said != "" {
			err = errors.New(said)
		}
		tried = append(tried, err)
	}
	missing = fmt.Errorf("a network namespace of our own: %w", errors.Join(tried...))
	runtime.UnlockOSThread()
	return 0, false
}

// spaces are the sets of namespaces to try: root needs no user namespace, and may be
// allowed none.
func spaces() []uintptr {
	out := []uintptr{syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER}
	if os.Geteuid() == 0 {
		out = []uintptr{syscall.CLONE_NEWNET, out[0]}
	}
	return out
}

func again(what string, flags uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), variable+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&syscall.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "in a network namespace:", err)
	return 1
}

// probe makes all that a network is made of.
func probe() error {
	if err := loopback(); err != nil {
		return err
	}
	n, err := New()
	if err != nil {
		return err
	}
	defer n.Close()
	_, err = n.Host()
	return err
}

// loopback turns on the loopback device of the thread's namespace: a new one has it off,
// and without it no process reaches itself.
func loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("the loopback device: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("turn on the loopback device: %w", err)
	}
	return nil
}
