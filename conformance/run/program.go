package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	startTimeout = 30 * time.Second // from the start to the URL on standard output
	stopTimeout  = 10 * time.Second // from the interrupt to the exit
)

// build compiles a program under test. file must be absolute.
func build(ctx context.Context, pkg, file string, race bool) error {
	args := []string{"build", "-o", file}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// serverProcess is the running server under test. The caller of startServer must stop it.
type serverProcess struct {
	url    string
	cmd    *exec.Cmd
	log    string
	exited chan error // receives one value
}

// startServer starts the program out/name, a server, and waits for its URL. Its standard error is out/name.log.
func startServer(ctx context.Context, out, name string, args ...string) (*serverProcess, error) {
	file := filepath.Join(out, name+".log")
	log, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own descriptor
	cmd := exec.Command(filepath.Join(out, name), append([]string{"-listen", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &serverProcess{cmd: cmd, log: file, exited: make(chan error, 1)}

	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadString('\n')
		first <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, lines)
		p.exited <- cmd.Wait()
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	var cause error
	select {
	case p.url = <-first:
		if strings.HasPrefix(p.url, "http://") {
			return p, nil
		}
		cause = fmt.Errorf("%s must print its URL first, got %q; see %s", name, p.url, file)
	case <-timeout.C:
		cause = fmt.Errorf("%s printed no URL within %v; see %s", name, startTimeout, file)
	case <-ctx.Done():
		cause = ctx.Err()
	}
	_ = cmd.Process.Kill()
	<-p.exited
	return nil, cause
}

// stop interrupts the server. It returns an error if the server ended before, too late or with an error.
func (p *serverProcess) stop() error {
	select {
	case err := <-p.exited:
		return errors.Join(fmt.Errorf("server ended before the suite; see %s", p.log), err, crashIn(p.log))
	default:
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case err := <-p.exited:
		if err != nil {
			err = fmt.Errorf("server failed after the interrupt: %w; see %s", err, p.log)
		}
		return errors.Join(err, crashIn(p.log))
	case <-timeout.C:
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("server did not exit within %v of the interrupt; see %s", stopTimeout, p.log)
	}
}

// crashIn returns an error if the standard error of a program, in a file, has a panic or a data race.
func crashIn(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		for _, sign := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, sign) {
				return fmt.Errorf("%s; see %s", strings.TrimSpace(line), file)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
