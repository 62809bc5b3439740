package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints the failures and a table with a row for each leg. It reports whether there are no failures.
func report(w io.Writer, reports []legReport) (ok bool) {
	ok = true
	for _, j := range reports {
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
			fmt.Fprintf(w,
				"\nSTALE %v %v\n    passes, or this leg has no such scenario: remove it from the baseline, for "+
					"example with -shrink\n", j.leg, e)
		}
	}

	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "leg\tscenarios\tpassed\tbaseline\tfailed\tstale entries\tskipped checks\ttime\t")
	for _, j := range reports {
		fmt.Fprintf(table, "%v\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t\n", j.leg, len(j.results),
			j.count(passed), j.count(known), j.count(failed), len(j.stale), j.skipped(),
			j.took.Round(100*time.Millisecond))
	}
	table.Flush()
	return ok
}
