package house

import (
	"fmt"
	"strings"
)

const module = "github.com/parley-mcp/parley"

// kind says what the rules are for a room.
type kind int

const (
	onFloor  kind = iota // imports what is on lower floors
	adapter              // imports anything public, and the internal packages of floor 0; imported by the program
	forTests             // imports anything public; imported by tests and by the rooms beside
	beside               // imports anything public; imported by nobody
	official             // the official documents: imported by tests only
	house                // this package
)

type room struct {
	kind  kind
	floor int // of a room onFloor
}

// rooms is keyed by directory. A package belongs to the room with the longest matching path; packages
// of one room may import each other.
var rooms = map[string]room{
	"cmd/parley":          {floor: 9},
	"gateway":             {floor: 8},
	"host":                {floor: 7},
	"server":              {floor: 6},
	"client":              {floor: 6},
	"internal/httpwire":   {floor: 5},
	"internal/streamwire": {floor: 5},
	"internal/modern":     {floor: 4},
	"internal/legacy":     {floor: 4},
	"task":                {floor: 3},
	"auth/oauth":          {floor: 3},
	"internal/rpc":        {floor: 2},
	"call":                {floor: 1},
	"internal/revision":   {floor: 1},
	"internal/seal":       {floor: 1},
	"auth/jwt":            {floor: 1},
	"auth/introspection":  {floor: 1},
	"transport":           {floor: 1},
	"auth":                {floor: 0},
	"internal/challenge":  {floor: 0},
	"internal/digest":     {floor: 0},
	"internal/atomicfile": {floor: 0},
	"internal/httpurl":    {floor: 0},
	"internal/redirect":   {floor: 0},
	"mcp":                 {floor: 0},
	"jsonrpc":             {floor: 0},
	"internal/callkey":    {floor: 0},
	"principal":           {floor: 0},
	"store":               {floor: 0},
	"schema":              {floor: 0},

	"store/redisstore": {kind: adapter},
	"otel":             {kind: adapter},
	"auth/devissuer":   {kind: adapter},

	"mcptest":         {kind: forTests},
	"store/storetest": {kind: forTests},

	"examples":    {kind: beside},
	"conformance": {kind: beside},
	"interop":     {kind: beside},
	"bench":       {kind: beside},

	"internal/spec":  {kind: official},
	"internal/house": {kind: house},
}

// sameFloor are the imports allowed between packages of one floor.
var sameFloor = map[[2]string]bool{
	{"mcp", "jsonrpc"}:             true,
	{"mcp", "internal/httpurl"}:    true,
	{"auth", "jsonrpc"}:            true,
	{"auth", "principal"}:          true,
	{"auth", "internal/challenge"}: true,
	{"auth", "internal/httpurl"}:   true,
	{"auth", "internal/redirect"}:  true,
}

// withoutIO are the rooms that are data and algorithms only, and doesIO is what they therefore do not
// import.
var (
	withoutIO = map[string]bool{"mcp": true, "jsonrpc": true, "principal": true, "schema": true, "internal/seal": true}
	doesIO    = map[string]bool{"net": true, "net/http": true, "os": true, "os/exec": true, "os/signal": true, "syscall": true}
)

// withoutHTTP are the packages of the eras. Transport bindings are on floor 5.
var withoutHTTP = map[string]bool{"internal/modern": true, "internal/legacy": true}

// roomOf returns the name of the room that a directory of the project belongs to.
func roomOf(dir string) (name string, found bool) {
	for name = dir; name != "."; name = parent(name) {
		if _, found = rooms[name]; found {
			return name, true
		}
	}
	return "", false
}

func parent(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i >= 0 {
		return dir[:i]
	}
	return "."
}

// arrow is one import.
type arrow struct {
	file   string // from the root of the project, with slashes
	target string // the import path
}

func (a arrow) test() bool { return strings.HasSuffix(a.file, "_test.go") }

func checkRoom(file string) error {
	if _, found := roomOf(parent(file)); !found {
		return fmt.Errorf("%s is in no room: enter its directory in the table of internal/house/rooms_test.go, on its floor", file)
	}
	return nil
}

// check returns what is wrong with an arrow, or nil.
func (a arrow) check() error {
	if err := checkRoom(a.file); err != nil {
		return err
	}
	from, _ := roomOf(parent(a.file))
	dir, ours := strings.CutPrefix(a.target, module+"/")
	if !ours {
		return a.checkOutside(from)
	}
	to, found := roomOf(dir)
	if !found {
		return fmt.Errorf("%s imports %s, which is in no room: enter it in the table of internal/house/rooms_test.go, on its floor", a.file, a.target)
	}
	if from == to || allowed(from, to) || a.test() && allowedInTests(from, to, dir) {
		return nil
	}
	return fmt.Errorf("%s imports %s: %s", a.file, a.target, reason(from, to))
}

func (a arrow) checkOutside(from string) error {
	if a.target == module {
		return fmt.Errorf("%s imports the root of the module, which is in no room", a.file)
	}
	if withoutIO[from] && doesIO[a.target] && !a.test() {
		return fmt.Errorf("%s imports %s, but %s does no I/O", a.file, a.target, from)
	}
	if withoutHTTP[from] && strings.HasPrefix(a.target, "net/http") && !a.test() {
		return fmt.Errorf("%s imports %s, but transport bindings are on floor 5", a.file, a.target)
	}
	return nil
}

func allowed(from, to string) bool {
	f, t := rooms[from], rooms[to]
	switch f.kind {
	case onFloor:
		return t.kind == onFloor && t.floor < f.floor || sameFloor[[2]string{from, to}] ||
			t.kind == adapter && from == "cmd/parley"
	case adapter:
		return t.kind == onFloor && (public(to) || t.floor == 0)
	case forTests:
		return public(to) && t.kind == onFloor
	case beside:
		return public(to) && t.kind != beside
	default: // official
		return t.kind == onFloor && t.floor == 0
	}
}

// allowedInTests reports what a test may import in addition: any public package, packages for tests, the
// official documents and, in the tests of packages for tests, internal packages.
func allowedInTests(from, to, dir string) bool {
	return rooms[to].kind == official || rooms[from].kind == forTests && rooms[to].kind == onFloor || rooms[to].kind != beside && public(dir)
}

// public reports whether users of the library could import a room or package.
func public(dir string) bool {
	return !strings.HasPrefix(dir, "cmd/") && !strings.Contains("/"+dir+"/", "/internal/")
}

func reason(from, to string) string {
	f, t := rooms[from], rooms[to]
	switch {
	case t.kind == official:
		return to + " is for tests only"
	case t.kind == forTests:
		return to + " is for tests and for the rooms beside the floors"
	case t.kind == beside || t.kind == house:
		return "nobody imports " + to
	case f.kind != onFloor:
		return fmt.Sprintf("%s imports what is public, and %s is not", from, to)
	case t.kind == adapter:
		return "only the program imports " + to
	case f.floor == t.floor:
		return fmt.Sprintf("both are on floor %d, and rooms of one floor do not import each other", f.floor)
	default:
		return fmt.Sprintf("imports run down, and this one runs from floor %d up to floor %d", f.floor, t.floor)
	}
}
