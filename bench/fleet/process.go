package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// startTimeout limits how long a process may take to start, and an answer of Redis.
const startTimeout = 10 * time.Second

func defaultRedis() string {
	const installed = ".tools/servers/redis-server"
	if _, err := os.Stat(installed); err == nil {
		return installed
	}
	return "redis-server"
}

// freeAddr returns an address of the loopback interface that is not in use.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// awaitAddr waits until a process accepts connections.
func awaitAddr(addr string) error {
	for deadline := time.Now().Add(startTimeout); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// servers are processes that serve the demo tools.
type servers struct {
	processes []*exec.Cmd
	urls      []string
}

// startReplicas starts the processes. They share their state if shared is set.
func (b *bench) startReplicas(shared bool) (_ *servers, err error) {
	r := &servers{}
	defer func() {
		if err != nil {
			_, _ = r.stop()
		}
	}()
	keys := b.dir + "/keys"
	if err := os.WriteFile(keys, []byte("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), 0o600); err != nil {
		return r, err
	}
	for i := range b.o.replicas {
		prefix := "fleet:"
		if !shared {
			prefix = fmt.Sprintf("fleet%d:", i)
		}
		addr, err := freeAddr()
		if err != nil {
			return r, err
		}
		p := exec.Command(b.o.parley, "serve", "--addr", addr, "--store", "redis://"+b.redis.addr+"?prefix="+prefix,
			"--key-file", keys, "--limit-calls", "1000000")
		p.Env = append(os.Environ(), "GOMAXPROCS=1")
		if err := p.Start(); err != nil {
			return r, err
		}
		r.processes, r.urls = append(r.processes, p), append(r.urls, "http://"+addr+"/mcp")
		if err := awaitAddr(addr); err != nil {
			return r, fmt.Errorf("replica does not start: %w", err)
		}
	}
	return r, nil
}

// stop ends the processes and returns their CPU time. A second call returns 0.
func (r *servers) stop() (cpu time.Duration, err error) {
	for _, p := range r.processes {
		err = errors.Join(err, p.Process.Signal(os.Interrupt))
	}
	for _, p := range r.processes {
		err = errors.Join(err, p.Wait())
		cpu += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	}
	r.processes = nil
	return cpu, err
}

// redisServer is a Redis process without persistence.
type redisServer struct {
	addr    string
	process *exec.Cmd
}

func startRedis(program, dir string) (*redisServer, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	r := &redisServer{addr, exec.Command(program, "--bind", host, "--port", port, "--dir", dir, "--save", "")}
	if err := r.process.Start(); err != nil {
		return nil, fmt.Errorf("cannot start Redis: %w; run make tools, or name the program with -redis-server", err)
	}
	if err := awaitAddr(addr); err != nil {
		r.kill()
		return nil, fmt.Errorf("redis-server does not accept connections: %w", err)
	}
	return r, nil
}

func (r *redisServer) kill() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}

// usage is what a Redis server has used since its start.
type usage struct {
	cpu      time.Duration
	commands int64
}

func (r *redisServer) usage() (u usage, err error) {
	c, err := net.DialTimeout("tcp", r.addr, startTimeout)
	if err != nil {
		return u, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(startTimeout))
	if _, err := c.Write([]byte("INFO cpu commandstats\r\nQUIT\r\n")); err != nil {
		return u, err
	}
	return parseUsage(bufio.NewScanner(c))
}

// parseUsage reads the answer to INFO cpu commandstats. It counts the commands of stores, but not those that their
// scripts run, which Redis counts as well.
func parseUsage(lines *bufio.Scanner) (u usage, err error) {
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return u, fmt.Errorf("INFO: %w", err)
			}
			u.cpu += time.Duration(seconds * float64(time.Second))
		case "cmdstat_evalsha", "cmdstat_publish", "cmdstat_subscribe", "cmdstat_unsubscribe", "cmdstat_unlink":
			number, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return u, fmt.Errorf("INFO: %w", err)
			}
			u.commands += n
		}
	}
	if u.cpu == 0 {
		return u, fmt.Errorf("INFO: the CPU time is missing: %w", lines.Err())
	}
	return u, lines.Err()
}
