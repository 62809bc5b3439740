package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
)

// Unknown returns the error for a name that is not among names: it has the name that is most similar or, if there is
// none, the advice.
func Unknown(kind, name string, names []string, advice string) error {
	if near := Nearest(name, names); near != "" {
		return fmt.Errorf("unknown %s %q; did you mean %s?", kind, name, quoting.OfUser().Quote(near))
	}
	return fmt.Errorf("unknown %s %q; %s", kind, name, advice)
}

// Nearest returns the name that is most similar to word, or "" if none is similar. If word begins with a server and
// "__", as at a gateway, the name of a tool of a server with another name is not similar: word can be a tool that is
// not served.
func Nearest(word string, names []string) string {
	server, own, found := strings.Cut(word, "__")
	if !found {
		own = word
	}
	known := found && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, server+"__") })
	best, least := "", len(own)/3+1
	for _, name := range names {
		other, _, prefixed := strings.Cut(name, "__")
		limit := len(server)/3 + 1
		if found && prefixed && (known && other != server || distance(server, other, limit) >= limit) {
			continue
		}
		if strings.EqualFold(name, word) || strings.HasSuffix(name, "__"+own) {
			return name
		}
		if d := distance(word, name, least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns the number of inserted, removed, replaced and transposed bytes between a and b, or a number of at
// least limit if it is not less than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
