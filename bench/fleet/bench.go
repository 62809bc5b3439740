package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// bench contains the programs and the Redis server of all measurements.
type bench struct {
	o     *options
	dir   string
	redis *redisServer
	idle  time.Duration // CPU time of all processes without load
}

// measurement is the average cost of one call.
type measurement struct {
	rate          float64       // calls per second of all processes
	cpu, redisCPU time.Duration // for each call
	commands      float64       // at Redis, without those that scripts run
}

func newBench(o *options) (_ *bench, err error) {
	b := &bench{o: o}
	if b.dir, err = os.MkdirTemp("", "fleet"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if o.parley == "" {
		o.parley = filepath.Join(b.dir, "parley")
		build := exec.Command("go", "build", "-o", o.parley, "./cmd/parley")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("cannot build ./cmd/parley: %w; run this program in the root of the checkout", err)
		}
	}
	if b.redis, err = startRedis(o.redis, b.dir); err != nil {
		return nil, err
	}
	idle, err := b.startReplicas(true)
	if err != nil {
		return nil, err
	}
	b.idle, err = idle.stop()
	return b, err
}

func (b *bench) close() {
	if b.redis != nil {
		b.redis.kill()
	}
	_ = os.RemoveAll(b.dir)
}

// measure measures calls of one kind at new processes, which are replicas of one server if shared is set.
func (b *bench) measure(k kind, shared bool) (m measurement, err error) {
	replicas, err := b.startReplicas(shared)
	if err != nil {
		return m, err
	}
	defer replicas.stop()
	l := newLoad(replicas.urls, shared, b.o.replicas*b.o.clients)
	defer l.close()
	if err := l.prepare(k); err != nil {
		return m, err
	}
	before, err := b.redis.usage()
	if err != nil {
		return m, err
	}
	begun := time.Now()
	calls, err := l.run(k, b.o.duration)
	if err != nil {
		return m, err
	}
	elapsed := time.Since(begun)
	after, err := b.redis.usage()
	if err != nil {
		return m, err
	}
	l.close() // so that the replicas end at once
	cpu, err := replicas.stop()
	if err != nil {
		return m, err
	}
	return measurement{
		rate:     float64(calls) / elapsed.Seconds(),
		cpu:      (cpu - b.idle) / time.Duration(calls),
		redisCPU: (after.cpu - before.cpu) / time.Duration(calls),
		commands: float64(after.commands-before.commands) / float64(calls),
	}, nil
}
