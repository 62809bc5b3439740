package house

import (
	"slices"
	"strings"
	"testing"
)

// onPublicAPI lists the directories that could live in another repository: what they can do, every program
// can.
var onPublicAPI = []string{"gateway/", "skills/", "apps/", "otel/", "cmd/parley/", "examples/"}

// leaves lists the internal packages that they may import: packages without any behaviour of the protocol, a
// server, a client or a host.
var leaves = []string{"atomicfile", "challenge", "childenv", "digest", "glob", "httpguard", "httpurl", "loglimit",
	"plaintext", "redirect", "resourceuri"}

func TestNothingIsBuiltThroughABackDoor(t *testing.T) {
	for _, f := range project(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		isPublic := slices.ContainsFunc(onPublicAPI, func(dir string) bool { return strings.HasPrefix(f.path, dir) })
		for _, path := range f.imports {
			name, internal := strings.CutPrefix(path, module+"/internal/")
			switch {
			case !internal:
			case isPublic && !slices.Contains(leaves, name):
				t.Errorf("%s imports internal/%s: use the public API, or give it what is missing", f.path, name)
			case strings.HasPrefix(f.path, "host/") && slices.Contains([]string{"outbound", "rpc", "tasks"}, name):
				t.Errorf("%s imports internal/%s: a host does not know that a server exists", f.path, name)
			}
		}
	}
}
