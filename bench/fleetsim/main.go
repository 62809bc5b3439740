// Fleetsim shows how many replicas and Redis shards a load needs, and what limits it first:
//
//	go run ./bench/fleetsim
//
// It simulates requests that arrive at random times, wait for a processor of a replica, and wait for the Redis shard of their
// session for each operation. It computes memory from the number of sessions and streams. The costs are measured
// figures; model.go names the command for each. Flags change the load, the costs and the machines. The result depends
// only on the flags, because the random numbers have a seed.
//
// The simulation leaves out the time of the tools themselves, the clients, the load balancer and the bandwidth of the
// network.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	m := defaults()
	replicas := numbers{1, 2, 4, 8}
	shards := numbers{1, 2, 4}
	m.addFlags(flag.CommandLine)
	flag.Var(&replicas, "replicas", "`numbers` of replicas to simulate")
	flag.Var(&shards, "shards", "`numbers` of Redis shards to simulate")
	flag.Parse()
	err := m.check()
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("there must be no arguments, got %q", flag.Args())
	}
	if err == nil {
		err = print(os.Stdout, &m, replicas, shards)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1)
	}
}

// print simulates each combination and prints a line for it.
func print(w io.Writer, m *model, replicas, shards []int) error {
	fmt.Fprintf(w, "%d idle sessions, %d open streams, %.0f calls/s; replicas with %d processors, Redis shards with one\n\n", m.sessions, m.streams, m.calls, m.processors)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "replicas\tshards\treplica CPU\tRedis CPU\treplica memory\tRedis memory\tp50\tp99\tenough\tfirst limit\t")
	smallest := ""
	for _, r := range replicas {
		for _, s := range shards {
			got := m.simulate(r, s)
			enough := "no"
			if got.enough(m) {
				enough = "yes"
				if smallest == "" {
					smallest = fmt.Sprintf("The first line that is enough has replicas: %d, shards: %d, first limit: %s.", r, s, got.limit())
				}
			}
			fmt.Fprintf(out, "%d\t%d\t%.0f %%\t%.0f %%\t%.0f %%\t%.0f %%\t%s\t%s\t%s\t%s\t\n", r, s,
				100*got.replicaCPU, 100*got.redisCPU, 100*got.replicaMemory, 100*got.redisMemory, milliseconds(got.p50), milliseconds(got.p99), enough, got.limit())
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if smallest == "" {
		smallest = "No line is enough."
	}
	_, err := fmt.Fprintf(w, "\nEnough: every load is at most %.0f %% and p99 is at most %v. %s\n", 100*m.most, m.latency, smallest)
	return err
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + " ms"
}

// numbers is a flag with positive numbers, separated by commas.
type numbers []int

func (n *numbers) String() string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]int(*n))), ","), "[]")
}

func (n *numbers) Set(text string) error {
	*n = nil
	for part := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(part)
		if err != nil || i < 1 {
			return fmt.Errorf("must be positive numbers with commas between them, got %q", text)
		}
		*n = append(*n, i)
	}
	return nil
}
