//go:build integration && unix

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/freeaddr"
)

// process is a child process of the test. It ends with the test.
type process struct {
	t       testing.TB
	name    string
	output  string // file of the output to standard error, of all runs
	command *exec.Cmd
}

// start starts the process. Its standard error goes to the file.
func (p *process) start(command *exec.Cmd) {
	p.t.Helper()
	output, err := os.OpenFile(p.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer output.Close()
	command.Stderr = output
	endWithTest(command)
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.command = command
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// kill ends the process without warning.
func (p *process) kill() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		p.command = nil
	}
}

// end waits until the process has ended by itself without an error.
func (p *process) end() {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.command.Wait() }()
	faulttest.Wait(p.t, p.name+" ends", func() error {
		select {
		case err := <-done:
			if err != nil {
				p.t.Errorf("%s: %v", p.name, err)
			}
			return nil
		default:
			return errors.New("it runs")
		}
	})
	p.command = nil
}

// check fails the test if the process has printed a data race or a panic, and prints the end of the output of a test that
// has failed.
func (p *process) check() {
	output, err := os.ReadFile(p.output)
	if err != nil {
		p.t.Error(err)
		return
	}
	for _, bad := range []string{"DATA RACE", "panic"} {
		if at := bytes.Index(output, []byte(bad)); at >= 0 {
			p.t.Errorf("%s has printed %q:\n%.8000s", p.name, bad, output[max(0, at-200):])
		}
	}
	if p.t.Failed() {
		p.t.Logf("output of %s:\n%s", p.name, output[max(0, len(output)-64<<10):])
	}
}

// redisServer is a Redis server with an append-only file that is written before each answer.
type redisServer struct {
	process
	addr, dir string
	arguments []string
}

func startRedis(t testing.TB, arguments ...string) *redisServer {
	t.Helper()
	addr, err := freeaddr.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := &redisServer{process{t: t, name: "redis-server", output: filepath.Join(dir, "output")}, addr, dir, arguments}
	r.start()
	t.Cleanup(func() {
		r.kill()
		r.check()
	})
	return r
}

// start starts the server and waits until it accepts connections.
func (r *redisServer) start() {
	r.t.Helper()
	program, err := filepath.Abs("../../../.tools/servers/redis-server")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		r.t.Fatalf("%v: run make tools", err)
	}
	_, port, _ := net.SplitHostPort(r.addr)
	command := exec.Command(program, append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", ""}, r.arguments...)...)
	command.Dir = r.dir
	r.process.start(command)
	faulttest.Wait(r.t, "Redis starts", func() error {
		connection, err := net.Dial("tcp", r.addr)
		if err != nil {
			return err
		}
		return connection.Close()
	})
}

// replicaProcess is a process with a replica.
type replicaProcess struct {
	process
	settings string
	addr     string
}

func newReplica(t testing.TB, o settings) *replicaProcess {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return &replicaProcess{process: process{t: t, name: o.Name, output: filepath.Join(t.TempDir(), "output")}, settings: string(text)}
}

// start starts the replica and returns when it serves.
func (r *replicaProcess) start() {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), replicaVariable+"="+r.settings)
	stdout, err := command.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.process.start(command)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		r.t.Fatalf("%s does not start: %v", r.name, err)
	}
	r.addr = strings.TrimSpace(line)
}
