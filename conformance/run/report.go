package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints what is wrong, then a table with a row per leg. It returns whether all is well.
func report(w io.Writer, judged []judgement) (ok bool) {
	ok = true
	for _, j := range judged {
		for _, r := range j.results {
			if r.verdict != failed {
				continue
			}
			ok = false
			fmt.Fprintf(w, "\nFAILED %v %s\n", j.leg, r.scenario)
			for _, problem := range r.problems {
				fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(problem, "\n", "\n    "))
			}
			if r.dir != "" {
				fmt.Fprintf(w, "    see %s\n", r.dir)
			}
		}
		for _, e := range j.stale {
			ok = false
			fmt.Fprintf(w, "\nSTALE %v %v\n    passes, or is no scenario of this leg: remove it from the baseline (-shrink does)\n", j.leg, e)
		}
	}

	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "leg\tscenarios\tpassed\tbaseline\tfailed\tstale entries\tskipped checks\ttime\t")
	for _, j := range judged {
		fmt.Fprintf(table, "%v\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t\n", j.leg, len(j.results),
			j.count(passed), j.count(known), j.count(failed), len(j.stale), j.skipped(), j.took.Round(100*time.Millisecond))
	}
	table.Flush()
	return ok
}
