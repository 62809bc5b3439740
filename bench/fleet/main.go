// Fleet measures the throughput of three replicas of a server:
//
//	make tools    # installs redis-server, or name yours with -redis-server
//	go run ./bench/fleet
//
// It builds parley, starts redis-server, and calls the tool greet of "parley serve --store". It makes each measurement
// with three replicas of one server, and with three separate servers, which use different keys of the same Redis. In
// both cases each client sends every request to the next process: in one session, or in its session at this server.
// Every process has GOMAXPROCS=1.
//
// On three machines, three separate servers have three times the throughput of one. Here all processes, Redis and the
// clients share the processors of one machine, so calls per second do not show that. The speed-up is normalised by CPU
// time: it is three times the CPU time of a call at the separate servers, divided by the CPU time of a call at the
// replicas. It is 3 if replicas cost nothing. The CPU time of the three processes counts, from start to exit, minus
// that of idle processes. The CPU time of Redis and of the clients does not count. All replicas use one Redis, so its
// CPU time for a call limits their number: see store/redisstore/CAPACITY.md.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.redis, "redis-server", defaultRedis(), "`program` of Redis or Valkey")
	flag.StringVar(&o.parley, "parley", "", "`program` to measure; empty means to build ./cmd/parley")
	flag.IntVar(&o.replicas, "replicas", 3, "number of replicas")
	flag.IntVar(&o.clients, "clients", 16, "number of clients for each process; each client has one request at a time")
	flag.DurationVar(&o.duration, "duration", time.Second, "time for each measurement")
	flag.IntVar(&o.rounds, "rounds", 9, "number of measurements; the medians are printed")
	least := flag.Float64("least", 0.9, "smallest speed-up for each replica that is not an error")
	flag.Parse()
	if err := run(&o, *least); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

type options struct {
	redis, parley             string
	replicas, clients, rounds int
	duration                  time.Duration
}

// run prints a line for each kind of call and number of replicas.
func run(o *options, least float64) error {
	if o.replicas < 2 || o.clients < 1 || o.rounds < 1 || o.duration <= 0 || flag.NArg() > 0 {
		return errors.New("-replicas must be at least 2, -clients, -rounds and -duration must be positive, and there " +
			"are no arguments")
	}
	bench, err := newBench(o)
	if err != nil {
		return err
	}
	defer bench.close()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "call\tprocesses\tcalls/s\tCPU/call\tRedis CPU/call\tRedis commands/call\tspeed-up\t")
	slow := false
	for _, k := range kinds {
		separate, replicas, speedUp, err := bench.compare(k)
		if err != nil {
			return err
		}
		slow = slow || speedUp < least*float64(o.replicas)
		print := func(processes string, m measurement, more string) {
			fmt.Fprintf(out, "%s\t%d %s\t%.0f\t%.1f µs\t%.1f µs\t%.2f\t%s\t\n", k.name, o.replicas, processes, m.rate,
				microseconds(m.cpu), microseconds(m.redisCPU), m.commands, more)
		}
		print("servers", separate, "")
		print("replicas", replicas, fmt.Sprintf("%.2f", speedUp))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if slow {
		return fmt.Errorf("every speed-up must be at least %.2f", least*float64(o.replicas))
	}
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// compare measures calls at separate servers and at replicas in turn. It returns the medians of the measurements, by
// the CPU time of a call, and of the speed-ups.
func (b *bench) compare(k kind) (separate, replicas measurement, speedUp float64, err error) {
	var of [2][]measurement
	var speedUps []float64
	for round := range b.o.rounds {
		for turn := range of {
			i := (round + turn) % 2 // neither is always the first
			m, err := b.measure(k, i == 1)
			if err != nil {
				return separate, replicas, 0, err
			}
			of[i] = append(of[i], m)
		}
		last := len(of[0]) - 1
		speedUps = append(speedUps, float64(b.o.replicas)*float64(of[0][last].cpu)/float64(of[1][last].cpu))
	}
	byCPU := func(a, b measurement) int { return cmp.Compare(a.cpu, b.cpu) }
	return median(of[0], byCPU), median(of[1], byCPU), median(speedUps, cmp.Compare[float64]), nil
}

func median[T any](all []T, compare func(a, b T) int) T {
	slices.SortFunc(all, compare)
	return all[len(all)/2]
}
