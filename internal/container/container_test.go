// Package container tests what deploy ships: the image and the compose file.
package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorale/client"
)

// messages that the test publishes; their topics are dealt out over three.
const messages = 1000

// TestCompose builds the image, brings the compose file up, publishes through one
// node, recovers from the others, and takes everything down. It needs a container
// engine and no registry.
func TestCompose(t *testing.T) {
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("no container engine runs here: %v\n%s", err, out)
	}
	p := newProject(t)
	dir := p.build(t) // which takes minutes where nothing was built before
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	p.up(ctx, t, dir)

	nodes := map[string]*client.Client{}
	for name, address := range p.addresses {
		c, err := client.Dial([]string{address}, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		nodes[name] = c
		p.eventually(ctx, t, name+" is ready", func() error {
			s, err := c.Status(ctx, "")
			if err == nil && s.NotReady != "" {
				err = errors.New(s.NotReady)
			}
			return err
		})
	}
	publish(ctx, t, nodes["chorale-a"])
	for _, name := range []string{"chorale-b", "chorale-c"} {
		p.eventually(ctx, t, name+" has everything", func() error {
			s, err := nodes[name].Status(ctx, "")
			if err == nil && s.LastSeq < messages {
				err = fmt.Errorf("it has %d messages", s.LastSeq)
			}
			return err
		})
		compare(ctx, t, nodes[name], name)
	}
	for name := range p.addresses {
		p.eventually(ctx, t, name+" is healthy", func() error {
			if health := p.health(t, name); health != "healthy" {
				return errors.New(health)
			}
			return nil
		})
	}
	p.down(t)
	if left := p.output(t, "docker", "ps", "-aq", "--filter", "label=com.docker.compose.project="+p.name); left != "" {
		t.Errorf("containers are left: %s", left)
	}
}

func message(i int) client.Message {
	return client.Message{Topic: fmt.Sprintf("test/%d", i%3), Payload: []byte(fmt.Sprint("message ", i))}
}

func publish(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	pub, err := c.Publisher(client.PublisherOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if err := pub.PublishFunc(ctx, message(i), func(_ client.Ack, err error) {
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// compare recovers everything from a node and holds it against what was published.
func compare(ctx context.Context, t *testing.T, c *client.Client, name string) {
	t.Helper()
	sub, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"test/**"}, UntilTip: true})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer sub.Close()
	for i := 0; ; i++ {
		d, err := sub.Next(ctx)
		if err == io.EOF && i == messages {
			return
		}
		if err != nil {
			t.Fatalf("%s: message %d: %v", name, i, err)
		}
		if want := message(i); d.Topic != want.Topic || string(d.Payload) != string(want.Payload) {
			t.Fatalf("%s: message %d is %s %q, want %s %q", name, i, d.Topic, d.Payload, want.Topic, want.Payload)
		}
	}
}

// project is the compose file under a name, an image and ports of this run alone.
type project struct {
	name, image string
	compose     []string // how compose is called here
	env         []string
	addresses   map[string]string // of the APIs, by service
}

func newProject(t *testing.T) *project {
	t.Helper()
	p := &project{
		name:      fmt.Sprintf("chorale-test-%d", os.Getpid()),
		image:     fmt.Sprintf("chorale-test:%d", os.Getpid()),
		addresses: map[string]string{},
	}
	for _, compose := range [][]string{{"docker-compose"}, {"docker", "compose"}} {
		if exec.Command(compose[0], append(compose[1:], "version")...).Run() == nil {
			p.compose = compose
		}
	}
	if p.compose == nil {
		t.Skip("neither docker compose nor docker-compose is installed here")
	}
	p.env = append(os.Environ(), "CHORALE_IMAGE="+p.image)
	for _, letter := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // held until all are chosen
		_, port, _ := net.SplitHostPort(l.Addr().String())
		p.env = append(p.env, fmt.Sprintf("CHORALE_PORT_%s=%s", strings.ToUpper(letter), port))
		p.addresses["chorale-"+letter] = l.Addr().String()
	}
	return p
}

// build builds the binary as `make image` does, and returns the folder of the image.
func (p *project) build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "CGO_ENABLED=0")
	p.run(t.Context(), t, "go", "build", "-trimpath", "-o", filepath.Join(dir, "chorale"), "chorale/cmd/chorale")
	return dir
}

// up makes an image of the folder, and starts the services.
func (p *project) up(ctx context.Context, t *testing.T, dir string) {
	t.Helper()
	p.run(ctx, t, "docker", "build", "-q", "-t", p.image, "-f", "../../deploy/Dockerfile", dir)
	t.Cleanup(func() { p.output(t, "docker", "rmi", "-f", p.image) })
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.output(t, p.command("logs", "--tail", "20")...))
		}
		p.down(t)
	})
	p.run(ctx, t, p.command("up", "-d")...)
}

func (p *project) down(t *testing.T) {
	p.output(t, p.command("down", "-v", "-t", "20")...)
}

func (p *project) command(args ...string) []string {
	return append(append(p.compose[:len(p.compose):len(p.compose)], "-f", "../../deploy/compose.yaml", "-p", p.name), args...)
}

// health is what the engine says of the HEALTHCHECK of a service.
func (p *project) health(t *testing.T, service string) string {
	id := strings.TrimSpace(p.output(t, p.command("ps", "-q", service)...))
	return strings.TrimSpace(p.output(t, "docker", "inspect", "--format", "{{.State.Health.Status}}", id))
}

func (p *project) run(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// output runs a command also when the test's time is over, and does not fail.
func (p *project) output(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = p.env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// eventually waits until f has no objection.
func (p *project) eventually(ctx context.Context, t *testing.T, what string, f func() error) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited for: %s: %v", what, err)
		}
	}
}
