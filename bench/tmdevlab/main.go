//go:build linux

// Command tmdevlab rebuilds the TM Dev Lab benchmark of MCP servers on one machine with two CPUs. It builds the
// servers, starts one after another together with the Redis and the HTTP service that their tools use, and loads each
// with the same requests. README.md explains the workload, and how it differs from the published benchmark. With
// GOWORK=off:
//
//	go -C bench/tmdevlab run .                      checks, measures and prints a table: 70 minutes
//	go -C bench/tmdevlab run . check                shows the responses of each server
//	go -C bench/tmdevlab run . -only parley run     measures one server
//	go -C bench/tmdevlab run . -only parley profile writes CPU and allocation profiles of a Go server
//	go -C bench/tmdevlab run . report FILE...       prints the table again
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// contender is a server under one workload.
type contender struct {
	name      string
	label     string
	modern    bool   // requests of 2026-07-28, otherwise sessions
	reference string // the contender whose figures the report divides by
	command   []string
}

const officialSDK, officialSDKModern = "gosdk", "gosdk-2026"

var (
	parleyServer = filepath.Join(output, "parley")
	sdkServer    = filepath.Join(output, "gosdk")
	nodeServer   = []string{"node", "servers/ts/server.mjs"}
)

var contenders = []contender{
	{"floor", "net/http by hand", false, officialSDK, []string{filepath.Join(output, "floor")}},
	{"parley", "Parley", false, officialSDK, []string{parleyServer}},
	{"parley-redis", "Parley, sessions in Redis", false, officialSDK, []string{parleyServer, "-store"}},
	{"gosdk", "go-sdk, stateless", false, officialSDK, []string{sdkServer}},
	{"gosdk-sessions", "go-sdk, sessions", false, officialSDK, []string{sdkServer, "-sessions"}},
	{"mcpgo", "mcp-go", false, officialSDK, []string{filepath.Join(output, "mcpgo")}},
	{"ts", "TypeScript SDK, stateless", false, officialSDK, nodeServer},
	{"floor-2026", "net/http by hand", true, officialSDKModern, []string{filepath.Join(output, "floor")}},
	{"parley-2026", "Parley", true, officialSDKModern, []string{parleyServer}},
	{"gosdk-2026", "go-sdk", true, officialSDKModern, []string{sdkServer}},
	{"mcpgo-2026", "mcp-go", true, officialSDKModern, []string{filepath.Join(output, "mcpgo")}},
	{"ts-2026", "TypeScript SDK", true, officialSDKModern, nodeServer},
}

// output is the folder of programs and results, in this module's folder.
const output = ".out"

var (
	only      = flag.String("only", "", "measure only these servers, separated by commas")
	rounds    = flag.Int("rounds", 3, "number of rounds; the order of the servers rotates")
	users     = flag.Int("users", 50, "number of users")
	ramp      = flag.Duration("ramp", 15*time.Second, "time until all users have started; this warms the server up")
	duration  = flag.Duration("for", 30*time.Second, "time to measure in each mode")
	think     = flag.Duration("think", 50*time.Millisecond, "a user's pause between iterations")
	settle    = flag.Duration("settle", 5*time.Second, "time without pauses before that mode is measured")
	out       = flag.String("out", "", "file for the results, by default .out/results/TIME.jsonl")
	chart     = flag.String("chart", "", "file for a bar chart of the report, as SVG")
	serverCPU = flag.Int("server-cpu", 1, "CPU of the servers")
	driverCPU = flag.Int("driver-cpu", 0, "CPU of this program, Redis and the HTTP service")
	redisPath = flag.String("redis", "", "redis-server to start, by default the one of scripts/tools or in PATH")
)

func main() {
	log.SetFlags(0)
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: tmdevlab [flags] [check | run | profile | report FILE...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := do(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func do(command string) error {
	if command == "report" {
		return report(flag.Args()[1:])
	}
	todo, known := map[string][]step{
		"": {check, measure}, "check": {check}, "run": {measure}, "profile": {profile},
	}[command]
	if !known {
		flag.Usage()
		os.Exit(2)
	}
	runtime.LockOSThread() // children end with the thread that started them
	if err := pin(*driverCPU); err != nil {
		return err
	}
	if err := build(); err != nil {
		return err
	}
	debug.SetGCPercent(400) // this program shares its CPU with Redis and the HTTP service
	s, err := startServices()
	if err != nil {
		return err
	}
	defer s.stop()
	for _, step := range todo {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

// step does something with all servers.
type step func(*services) error

// measure measures every server in each round, writes the results to a file, and prints the report.
func measure(s *services) error {
	name := *out
	if name == "" {
		name = filepath.Join(output, "results", time.Now().Format("2006-01-02T150405")+".jsonl")
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	encoder := json.NewEncoder(f)
	for round := range *rounds {
		if err := s.each(round, func(c contender, p *process, addr, _ string) error {
			for _, r := range s.load(c, p, addr, round) {
				log.Printf("%d %-15s %-5s %6.0f req/s, %7.3f ms of CPU an iteration, p99 %6.1f ms, %d errors, "+
					"server %3.0f %% busy, others %2.0f %% %s", round, r.Server, r.Mode, r.rate(), r.perIteration(),
					milliseconds(r.Calls.P99), r.Errors, 100*r.ServerCPU/r.Seconds, 100*r.Others, r.Sample)
				if err := encoder.Encode(r); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return report([]string{name})
}

// profile writes the CPU and allocation profile of each Go server, under load without pauses.
func profile(s *services) error {
	return s.each(0, func(c contender, _ *process, addr, admin string) error {
		if c.command[0] == "node" {
			return nil
		}
		l, wait := launch(c, addr)
		defer func() { l.phase.Store(stop); wait() }()
		l.think.Store(0)
		time.Sleep(*settle)
		for _, kind := range []string{fmt.Sprintf("profile?seconds=%.0f", duration.Seconds()), "allocs"} {
			if err := save(c, admin, kind); err != nil {
				return err
			}
		}
		return nil
	})
}

func save(c contender, admin, kind string) error {
	r, err := http.Get("http://" + admin + "/debug/pprof/" + kind)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	kind, _, _ = strings.Cut(kind, "?")
	name := filepath.Join(output, "results", c.name+"."+kind+".pprof")
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	log.Printf("go tool pprof -top %s", filepath.Join("bench/tmdevlab", name))
	return os.WriteFile(name, data, 0o644)
}
