package gateway

import "strconv"

const (
	separator = "__"

	// maxName is how long the name of a tool may be here (2026-07-28, server/tools, Tool Names).
	maxName = 128
)

// names are the names in use, of all servers.
type names struct {
	taken map[string]bool
}

// take returns a name for a tool of a server that no other has, and whether it is
// plainly the two put together. It is not if the tool's name has characters that
// names here have not, is too long, or if a name made so is taken.
func (n *names) take(server, tool string) (name string, plain bool) {
	want := server + separator + tool
	base := fit(want, maxName)
	name = base
	for i := 2; n.taken[name]; i++ {
		suffix := "_" + strconv.Itoa(i)
		name = fit(base, maxName-len(suffix)) + suffix
	}
	if n.taken == nil {
		n.taken = make(map[string]bool)
	}
	n.taken[name] = true
	return name, name == want
}

func (n *names) free(name string) { delete(n.taken, name) }

// fit makes a name of at most limit characters of those that a name may have.
func fit(name string, limit int) string {
	fitted := make([]byte, 0, len(name))
	for _, r := range name {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.') {
			r = '_'
		}
		fitted = append(fitted, byte(r))
	}
	return string(fitted[:min(len(fitted), limit)])
}
