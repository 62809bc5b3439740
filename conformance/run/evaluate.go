package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// verdict is the comparison of an outcome with the baseline.
type verdict int

const (
	passed verdict = iota
	known          // not passed, and in the baseline
	failed         // not passed, and not in the baseline
)

type result struct {
	outcome
	verdict  verdict
	problems []string // the reasons; for the verdict failed, only those that are not in the baseline
}

// legReport is the comparison of one leg with its part of the baseline.
type legReport struct {
	leg     leg
	took    time.Duration
	results []result
	stale   []entry // entries that no result needs
}

func (r legReport) count(v verdict) int {
	n := 0
	for _, one := range r.results {
		if one.verdict == v {
			n++
		}
	}
	return n
}

// skipped counts the checks that the suite skipped.
func (r legReport) skipped() int {
	n := 0
	for _, one := range r.results {
		for _, c := range one.checks {
			if c.Status == "SKIPPED" {
				n++
			}
		}
	}
	return n
}

func evaluate(l leg, outcomes []outcome, entries []entry, took time.Duration) legReport {
	j := legReport{leg: l, took: took}
	used := make(map[entry]bool)
	for _, o := range outcomes {
		j.results = append(j.results, evaluateOutcome(o, entries, used))
	}
	for _, e := range entries {
		if !used[e] {
			j.stale = append(j.stale, e)
		}
	}
	return j
}

// evaluateOutcome evaluates one scenario and adds the entries that it needs to used.
func evaluateOutcome(o outcome, entries []entry, used map[entry]bool) result {
	find := func(checkID string) (entry, bool) {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.scenario == o.scenario && e.check == checkID })
		if i < 0 {
			return entry{}, false
		}
		return entries[i], true
	}
	whole, listed := find("")

	succeeded := 0
	var all, unknown []string
	for _, c := range o.checks {
		switch c.Status {
		case "SKIPPED", "INFO":
		case "SUCCESS":
			// Valid messages are not enough if the scenario skipped its own checks.
			if c.ID != "wire-schema-valid" {
				succeeded++
			}
		default: // FAILURE, WARNING and unknown statuses
			problem := fmt.Sprintf("%s %s: %s", c.Status, c.ID, cmp.Or(c.ErrorMessage, c.Description))
			all = append(all, problem)
			if e, ok := find(c.ID); ok && !listed {
				used[e] = true
			} else {
				unknown = append(unknown, problem)
			}
		}
	}
	if o.crash != nil {
		all, unknown = append(all, o.crash.Error()), append(unknown, o.crash.Error())
	}
	if succeeded == 0 && len(all) == 0 {
		nothing := "the suite skipped all checks"
		if o.dir == "" {
			nothing = "the suite left no result"
		}
		all, unknown = append(all, nothing), append(unknown, nothing)
	}

	switch {
	case len(all) == 0:
		return result{outcome: o, verdict: passed}
	case listed:
		used[whole] = true
		return result{outcome: o, verdict: known, problems: all}
	case len(unknown) == 0:
		return result{outcome: o, verdict: known, problems: all}
	default:
		return result{outcome: o, verdict: failed, problems: unknown}
	}
}
