package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const tableHead = `# Conformance

The results of the [official conformance suite](https://github.com/modelcontextprotocol/conformance) %s.
This page is generated; to run the suite and write it again, use

    make conformance

[One server](conformance/server), a single process with a single endpoint, answers in all columns, and so does
[one client](conformance/client). "All" is the whole suite. The columns 2025-11-25 and 2026-07-28 are the requirements
that the suite has frozen for a revision, tested in that revision. In the gateway columns, the server is behind
[a gateway](conformance/gateway). A scenario passes if a check succeeds and none fails or warns. A dash stands for a
scenario that does not belong to the column. [The baseline](conformance/baseline.yaml) says why a
scenario does not pass.
`

// writeTable writes the results as a Markdown page. It contains nothing that differs between runs with equal results.
func writeTable(file, tools string, reports []legReport) error {
	text, err := os.ReadFile(filepath.Join(tools, "node_modules/@modelcontextprotocol/conformance/package.json"))
	if err != nil {
		return err
	}
	var suite struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &suite); err != nil {
		return err
	}
	page := fmt.Sprintf(tableHead, suite.Version)
	for _, role := range []string{"server", "client"} {
		page += "\n## As a " + role + "\n\n" + table(slices.DeleteFunc(slices.Clone(reports), func(r legReport) bool {
			return r.leg.tested() != role
		}))
	}
	return os.WriteFile(file, []byte(page), 0o644)
}

// table returns a table with a row for each scenario and a column for each leg.
func table(reports []legReport) string {
	var scenarios []string
	head, line, sums := "| scenario |", "|---|", "| **passed** |"
	for _, r := range reports {
		head += " " + strings.Replace(r.leg.String(), "-", " ", 1) + " |"
		line += "---|"
		sums += fmt.Sprintf(" **%d of %d** |", r.count(passed), len(r.results))
		for _, one := range r.results {
			scenarios = append(scenarios, one.scenario)
		}
	}
	slices.Sort(scenarios)

	rows := []string{head, line, sums}
	for _, name := range slices.Compact(scenarios) {
		row := "| " + name + " |"
		for _, r := range reports {
			cell := "–"
			if i := slices.IndexFunc(r.results, func(one result) bool { return one.scenario == name }); i >= 0 {
				cell = r.results[i].cell()
			}
			row += " " + cell + " |"
		}
		rows = append(rows, row)
	}
	return strings.Join(rows, "\n") + "\n"
}

// cell says whether the scenario passes, and if not, the checks that do not.
func (r result) cell() string {
	if r.verdict == passed {
		return "passes"
	}
	var checks []string
	for _, c := range r.checks {
		if c.Status != "SUCCESS" && c.Status != "INFO" && c.Status != "SKIPPED" {
			checks = append(checks, c.ID)
		}
	}
	if len(checks) == 0 {
		return "skipped by the suite"
	}
	slices.Sort(checks)
	return "does not pass " + strings.Join(slices.Compact(checks), ", ")
}
