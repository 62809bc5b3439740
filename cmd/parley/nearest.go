package main

import (
	"fmt"
	"strings"
)

// hasNo is the error of something that a server does not have, but for what has names.
func hasNo(what, name string, names []string) error {
	if near := nearest(name, names); near != "" {
		return fmt.Errorf("the server has no %s %q: did you mean %s?", what, name, near)
	}
	return fmt.Errorf("the server has no %s %q: parley ls lists those it has", what, name)
}

// nearest returns the name that was probably meant, or "".
func nearest(meant string, names []string) string {
	best, least := "", len(meant)/3+1
	for _, name := range names {
		if strings.EqualFold(name, meant) || strings.HasSuffix(name, "__"+meant) {
			return name
		}
		if d := distance(meant, name, least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be changed, added or left out to make b of
// a; or at least limit, if it is not less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
