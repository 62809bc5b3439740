package main

import (
	"fmt"
	"slices"
	"strings"
)

// unknownName returns the error for a tool or prompt that the server does not have.
func unknownName(kind, name string, names []string) error {
	if near := nearest(name, names); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %s?", kind, name, near)
	}
	if slices.Contains(names, "search_tools") && slices.Contains(names, "call_tool") { // see discoverHelp
		return fmt.Errorf("unknown %s %q; the server does not list all tools: find it with search_tools, and call it with call_tool", kind, name)
	}
	return fmt.Errorf("unknown %s %q; list the server's %ss with parley ls", kind, name, kind)
}

// nearest returns the name that is most similar to word, or "" if none is similar.
func nearest(word string, names []string) string {
	_, own, found := strings.Cut(word, "__") // all names of a server at a gateway begin in the same way
	if !found {
		own = word
	}
	best, least := "", len(own)/3+1
	for _, name := range names {
		if strings.EqualFold(name, word) || strings.HasSuffix(name, "__"+own) {
			return name
		}
		if d := distance(word, name, least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of a and b in bytes, or a number of at least limit
// if the distance is not less than limit.
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
