package confine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ProbeCommand is the first argument of parley with which it calls [Probe].
const ProbeCommand = "__probe"

// Attempt is what a confined program has tried.
type Attempt struct {
	What    string // such as "read other files"
	Reached bool
}

// attempts are what [Probe] tries, in their order. Each function returns an error if it is refused.
var attempts = []struct {
	what string
	try  func(at *places) error
}{
	{"read other files", func(at *places) error {
		_, err := os.ReadFile(at.file)
		return err
	}},
	{"write other files", func(at *places) error {
		file, err := os.OpenFile(at.file, os.O_WRONLY, 0)
		if err == nil {
			file.Close()
		}
		return err
	}},
	{"use TCP", func(at *places) error { return dial("tcp", at.tcp) }},
	{"use UDP", func(at *places) error { return dial("udp", at.udp) }},
	{"use Unix sockets", func(at *places) error { return dial("unix", at.socket) }},
	{"signal other processes", func(at *places) error { return signal(at.process) }},
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, time.Second)
	if err == nil {
		c.Close()
	}
	return err
}

// places are what the program of an examination tries to reach. All of it exists.
type places struct{ file, tcp, udp, socket, process string }

// Probe tries to reach the places that args name, and prints what it has reached.
func Probe(args []string) int {
	if len(args) != 5 {
		return ExitCode
	}
	at := &places{args[0], args[1], args[2], args[3], args[4]}
	for _, a := range attempts {
		if a.try(at) == nil {
			fmt.Println(a.what)
		}
	}
	return 0
}

// Verify starts a program with the rules that tries to do what they do not allow, and returns what it has tried.
func (r *Rules) Verify(ctx context.Context) ([]Attempt, error) {
	dir, err := os.MkdirTemp("", "parley-probe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := &places{file: filepath.Join(dir, "file"), socket: filepath.Join(dir, "socket"),
		process: fmt.Sprint(os.Getpid())}
	secret, err := os.Create(at.file)
	if err != nil {
		return nil, err
	}
	secret.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer udp.Close()
	unix, err := net.Listen("unix", at.socket)
	if err != nil {
		return nil, err
	}
	defer unix.Close()
	at.tcp, at.udp = tcp.Addr().String(), udp.LocalAddr().String()
	return r.verify(ctx, at)
}

func (r *Rules) verify(ctx context.Context, at *places) (all []Attempt, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, args, err := r.Wrap("probe", self, []string{ProbeCommand, at.file, at.tcp, at.udp, at.socket, at.process})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if text := Failure(exit.ExitCode(), exit.Stderr); text != "" {
			err = errors.New(text)
		}
	}
	if err != nil {
		return nil, err
	}
	reached := strings.Split(string(out), "\n")
	for _, a := range attempts {
		switch a.what {
		case "read other files":
			if within(at.file, r.Read) || within(at.file, r.Write) {
				continue
			}
		case "write other files":
			if within(at.file, r.Write) {
				continue
			}
		case "use TCP", "use UDP":
			if r.Network {
				continue
			}
		}
		one := Attempt{What: a.what}
		for _, line := range reached {
			one.Reached = one.Reached || line == a.what
		}
		all = append(all, one)
	}
	return all, nil
}
