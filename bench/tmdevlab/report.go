//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// results are the results of a mode and a server, in the order of the rounds.
type results map[[2]string][]result

// report prints a table for each mode. Each figure is the median of the rounds, and each ratio the median of the ratios
// within a round.
func report(files []string) error {
	all := results{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			var r result
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			key := [2]string{r.Mode, r.Server}
			all[key] = append(all[key], r)
		}
	}
	for _, mode := range modes {
		all.table(mode)
	}
	if *chart == "" {
		return nil
	}
	return os.WriteFile(*chart, []byte(all.chart()), 0o644)
}

func (all results) table(mode string) {
	fmt.Println(map[string]string{
		"think": "\nUsers pause for 50 ms after each iteration:\n",
		"full":  "\nUsers do not pause:\n",
	}[mode])
	fmt.Println("| server | req/s | × go-sdk | CPU ms a request | ÷ go-sdk | p50 ms | p95 | p99 | RSS MB | errors " +
		"| HTTP ≥ 400 | server's CPU | other CPU: driver, Redis, API | others |")
	fmt.Println("|---" + strings.Repeat("|--:", 13) + "|")
	for _, c := range contenders {
		rows := all[[2]string{mode, c.name}]
		if len(rows) == 0 {
			continue
		}
		of := func(f func(r result) float64) float64 {
			var values []float64
			for _, r := range rows {
				values = append(values, f(r))
			}
			return median(values)
		}
		failed, bad := 0, 0
		for _, r := range rows {
			failed += r.Errors
			bad += r.Bad
		}
		share := func(f func(r result) float64) float64 {
			return of(func(r result) float64 { return 100 * f(r) / r.Seconds })
		}
		fmt.Printf("| %s | %.0f | %s | %.3f | %s | %.1f | %.1f | %.1f | %.0f | %d | %d | %.0f %% "+
			"| %.0f, %.0f, %.0f %% | %.0f %% |\n", c.name,
			of(result.rate), all.ratio(mode, c, result.rate),
			of(result.perRequest), all.ratio(mode, c, result.perRequest),
			of(func(r result) float64 { return milliseconds(r.Calls.P50) }),
			of(func(r result) float64 { return milliseconds(r.Calls.P95) }),
			of(func(r result) float64 { return milliseconds(r.Calls.P99) }),
			of(func(r result) float64 { return float64(r.Peak) / 1e6 }), failed, bad,
			share(func(r result) float64 { return r.ServerCPU }), share(func(r result) float64 { return r.DriverCPU }),
			share(func(r result) float64 { return r.RedisCPU }), share(func(r result) float64 { return r.APICPU }),
			of(func(r result) float64 { return 100 * r.Others }))
	}
}

// ratio compares a server with its reference: the median of the rounds, the smallest and the largest.
func (all results) ratio(mode string, c contender, f func(result) float64) string {
	var ratios []float64
	rows, references := all[[2]string{mode, c.name}], all[[2]string{mode, c.reference}]
	for i := range min(len(rows), len(references)) {
		ratios = append(ratios, f(rows[i])/f(references[i]))
	}
	if len(ratios) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// chart draws the number of requests that a second of CPU time is enough for, without pauses.
func (all results) chart() string {
	const width, left, bar, row = 760, 210, 18, 26
	requests := func(c contender) float64 {
		rows := all[[2]string{"full", c.name}]
		if len(rows) == 0 {
			return 0
		}
		var values []float64
		for _, r := range rows {
			values = append(values, 1000/r.perRequest())
		}
		return median(values)
	}
	longest := 0.0
	for _, c := range contenders {
		longest = max(longest, requests(c))
	}
	var b strings.Builder
	y := 0
	text := func(x int, anchor, weight, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s" font-weight="%s">%s</text>`+"\n", x, y, anchor, weight, s)
	}
	for _, modern := range []bool{false, true} {
		y += 34
		text(left, "start", "bold", map[bool]string{
			false: "2024-11-05: a session for every request", true: "2026-07-28: no sessions"}[modern])
		y += 10
		for _, c := range contenders {
			value := requests(c)
			if c.modern != modern || value == 0 {
				continue
			}
			length := int(value / longest * (width - left - 70))
			color := "#9aa5b1"
			if strings.HasPrefix(c.name, "parley") {
				color = "#2563eb"
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="2" fill="%s"/>`+"\n", left, y+4, length, bar, color)
			y += 18
			text(left-10, "end", "normal", c.label)
			text(left+length+8, "start", "normal", fmt.Sprintf("%.0f", value))
			y += row - 18
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" `+
		`font-size="13">`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n%s</svg>\n",
		width, y+16, b.String())
}
