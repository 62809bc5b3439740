package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A verdict is what an outcome means, given the baseline.
type verdict int

const (
	passed verdict = iota
	known          // does not pass, and the baseline says so
	failed         // does not pass, and the baseline does not say so
)

type result struct {
	outcome
	verdict  verdict
	problems []string // why it does not pass; of a failed one, only what the baseline does not know
}

// A judgement is one leg held against its part of the baseline.
type judgement struct {
	leg     leg
	took    time.Duration
	results []result
	stale   []entry // entries that no longer say anything true
}

func (j judgement) count(v verdict) int {
	n := 0
	for _, r := range j.results {
		if r.verdict == v {
			n++
		}
	}
	return n
}

// skipped counts the checks that the suite found not applicable, whatever the verdicts.
func (j judgement) skipped() int {
	n := 0
	for _, r := range j.results {
		for _, c := range r.checks {
			if c.Status == "SKIPPED" {
				n++
			}
		}
	}
	return n
}

func judge(l leg, outcomes []outcome, entries []entry, took time.Duration) judgement {
	j := judgement{leg: l, took: took}
	used := make(map[entry]bool)
	for _, o := range outcomes {
		j.results = append(j.results, judgeOutcome(o, entries, used))
	}
	for _, e := range entries {
		if !used[e] {
			j.stale = append(j.stale, e)
		}
	}
	return j
}

// judgeOutcome marks in used the entries that o still needs.
func judgeOutcome(o outcome, entries []entry, used map[entry]bool) result {
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
			// That the messages fit their schema says nothing if the scenario skipped all it is about.
			if c.ID != "wire-schema-valid" {
				succeeded++
			}
		default: // FAILURE, WARNING, and whatever the suite may yet invent
			problem := fmt.Sprintf("%s %s: %s", c.Status, c.ID, cmp.Or(c.ErrorMessage, c.Description))
			all = append(all, problem)
			if e, ok := find(c.ID); ok && !listed {
				used[e] = true
			} else {
				unknown = append(unknown, problem)
			}
		}
	}
	if o.distress != nil {
		all, unknown = append(all, o.distress.Error()), append(unknown, o.distress.Error())
	}
	if succeeded == 0 && len(all) == 0 {
		nothing := "the suite skipped all its checks"
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
