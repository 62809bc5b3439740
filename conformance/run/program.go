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
	startTimeout = 30 * time.Second // from start to the URL on stdout
	stopTimeout  = 10 * time.Second // from interrupt to exit
)

// build compiles one program under test. file is absolute.
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

// A serverProcess is the server under test, running. It belongs to whoever started it, who must stop it.
type serverProcess struct {
	url    string
	cmd    *exec.Cmd
	log    string
	exited chan error // receives once
}

// startServer starts out/server and waits for its URL. What it writes goes to out/server.log.
func startServer(ctx context.Context, out string) (*serverProcess, error) {
	file := filepath.Join(out, "server.log")
	log, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child keeps its own
	cmd := exec.Command(filepath.Join(out, "server"), "-listen", "127.0.0.1:0")
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
		cause = fmt.Errorf("server said %q where its URL was expected; see %s", p.url, file)
	case <-timeout.C:
		cause = fmt.Errorf("server gave no URL in %v; see %s", startTimeout, file)
	case <-ctx.Done():
		cause = ctx.Err()
	}
	_ = cmd.Process.Kill()
	<-p.exited
	return nil, cause
}

// stop interrupts the server and reports how it ended: early, late, not cleanly, or (nil) as it should.
func (p *serverProcess) stop() error {
	select {
	case err := <-p.exited:
		return errors.Join(fmt.Errorf("server ended before the suite did; see %s", p.log), err, distress(p.log))
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
			err = fmt.Errorf("server after an interrupt: %w; see %s", err, p.log)
		}
		return errors.Join(err, distress(p.log))
	case <-timeout.C:
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("server still ran %v after an interrupt; see %s", stopTimeout, p.log)
	}
}

// distress reads what a program wrote to stderr and reports a crash or a data race in it.
func distress(file string) error {
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
