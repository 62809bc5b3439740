package house

import (
	"fmt"
	"strings"
)

const module = "github.com/parley-mcp/parley"

// kind decides which packages a package may import and which may import it.
type kind int

const (
	inLayer kind = iota // may import packages in lower layers
	adapter             // may import public packages and layer 0; only the program may import it
	// may import public packages and test support; tests may import it, and so may top packages if it is
	// public
	testSupport
	top           // may import public packages; no package may import it
	specification // may import layer 0; only tests may import it: the schemas, the corpus of bad input, helpers
	rules         // this package
)

// placement is the kind of a package, and its layer if it is in one.
type placement struct {
	kind  kind
	layer int
}

// packages contains the placement of each directory. A directory that is not in the table shares the placement of its
// parent, and packages under the same entry may import each other.
var packages = map[string]placement{
	"cmd/parley":                  {layer: 9},
	"gateway":                     {layer: 8},
	"apps":                        {layer: 7},
	"host":                        {layer: 7},
	"skills":                      {layer: 7},
	"server":                      {layer: 6},
	"client":                      {layer: 6},
	"internal/serve/httpserver":   {layer: 5},
	"internal/serve/streamserver": {layer: 5},
	"internal/dial/httpclient":    {layer: 5},
	"internal/dial/streamclient":  {layer: 5},
	"internal/serve/modern":       {layer: 4},
	"internal/serve/legacy":       {layer: 4},
	"internal/dial/modern":        {layer: 4},
	"internal/dial/legacy":        {layer: 4},
	"internal/tasks":              {layer: 3},
	"task":                        {layer: 3},
	"auth/oauth":                  {layer: 3},
	"internal/rpc":                {layer: 2},
	"internal/changes":            {layer: 2},
	"internal/outbound":           {layer: 2},
	"internal/httpcodec":          {layer: 2},
	"auth/oauth/tokenstore":       {layer: 2},
	"call":                        {layer: 1},
	"internal/contain":            {layer: 1},
	"internal/forms":              {layer: 1},
	"internal/revision":           {layer: 1},
	"internal/seal":               {layer: 1},
	"internal/lease":              {layer: 1},
	"auth/jwt":                    {layer: 1},
	"auth/introspection":          {layer: 1},
	"transport":                   {layer: 1},
	"auth":                        {layer: 0},
	"internal/challenge":          {layer: 0},
	"docs/program":                {layer: 0},
	"internal/childenv":           {layer: 0},
	"internal/digest":             {layer: 0},
	"internal/atomicfile":         {layer: 0},
	"internal/glob":               {layer: 0},
	"internal/httpguard":          {layer: 0},
	"internal/httpurl":            {layer: 0},
	"internal/jsonscan":           {layer: 0},
	"internal/loglimit":           {layer: 0},
	"internal/plaintext":          {layer: 0},
	"internal/redirect":           {layer: 0},
	"internal/resourceuri":        {layer: 0},
	"internal/storecheck":         {layer: 0},
	"internal/topics":             {layer: 0},
	"mcp":                         {layer: 0},
	"jsonrpc":                     {layer: 0},
	"internal/callkey":            {layer: 0},
	"principal":                   {layer: 0},
	"store":                       {layer: 0},
	"schema":                      {layer: 0},

	"store/redisstore": {kind: adapter},
	"otel":             {kind: adapter},
	"sampler":          {kind: adapter},
	"auth/devissuer":   {kind: adapter},

	"mcptest":                       {kind: testSupport},
	"store/storetest":               {kind: testSupport},
	"internal/gatewaytest":          {kind: testSupport},
	"auth/oauth/internal/oauthtest": {kind: testSupport},
	"internal/logintest":            {kind: testSupport},
	"internal/replicatest":          {kind: testSupport},
	"internal/wiretest":             {kind: testSupport},
	"internal/ledger":               {kind: testSupport},
	"internal/faulttest":            {kind: testSupport},

	"examples":    {kind: top},
	"conformance": {kind: top},
	"docs/guide":  {kind: top},
	"interop":     {kind: top},
	"bench":       {kind: top},

	"gateway/faults":            {kind: top},
	"store/redisstore/faults":   {kind: top},
	"otel/examples":             {kind: top},
	"store/redisstore/examples": {kind: top},

	"internal/spec":       {kind: specification},
	"internal/corpus":     {kind: specification},
	"internal/freeaddr":   {kind: specification},
	"internal/must":       {kind: specification},
	"internal/syncbuffer": {kind: specification},
	"internal/house":      {kind: rules},
}

// sameLayer lists the imports that are allowed between packages in one layer.
var sameLayer = map[[2]string]bool{
	{"mcp", "jsonrpc"}:                          true,
	{"mcp", "internal/httpurl"}:                 true,
	{"internal/httpguard", "internal/httpurl"}:  true,
	{"internal/outbound", "internal/httpcodec"}: true,
	{"mcp", "internal/jsonscan"}:                true,
	{"jsonrpc", "internal/jsonscan"}:            true,
	{"schema", "internal/httpurl"}:              true,
	{"schema", "internal/jsonscan"}:             true,
	{"auth", "jsonrpc"}:                         true,
	{"auth", "principal"}:                       true,
	{"auth", "internal/challenge"}:              true,
	{"auth", "internal/httpurl"}:                true,
	{"auth", "internal/redirect"}:               true,

	{"internal/resourceuri", "internal/glob"}: true,
	{"store", "internal/storecheck"}:          true,
	{"store", "internal/topics"}:              true,

	{"internal/outbound", "internal/rpc"}:     true, // a request carries the caller that caused it
	{"internal/outbound", "internal/changes"}: true,
}

// families lists the packages of the commands of cmd/parley. Packages in the same folders that are not listed
// serve several families.
var families = map[string]bool{
	"cmd/parley/internal/serve": true, "cmd/parley/internal/use": true, "cmd/parley/internal/servers": true,
	"cmd/parley/internal/traffic": true, "cmd/parley/internal/check": true, "cmd/parley/internal/inspect": true,
	"cmd/parley/internal/login": true,
}

// withoutIO lists the packages that do no I/O, and doesIO the packages that they must not import.
var (
	withoutIO = map[string]bool{"mcp": true, "jsonrpc": true, "internal/jsonscan": true, "principal": true,
		"schema": true, "internal/seal": true}
	doesIO = map[string]bool{"net": true, "net/http": true, "os": true, "os/exec": true, "os/signal": true,
		"syscall": true}
)

// templates lists packages that call methods by name: a program that links one keeps every exported method, which
// made cmd/parley 10 MB larger.
var templates = map[string]bool{"text/template": true, "html/template": true}

// withoutHTTP lists the packages of the eras. Transport bindings are in layer 5.
var withoutHTTP = map[string]bool{
	"internal/serve/modern": true, "internal/serve/legacy": true, "internal/dial/modern": true,
	"internal/dial/legacy": true,
}

// entryOf returns the name of the entry in packages that applies to a directory.
func entryOf(dir string) (name string, found bool) {
	for name = dir; name != "."; name = parent(name) {
		if _, found = packages[name]; found {
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

// imported is one import of a file.
type imported struct {
	file   string // from the root of the project, with slashes
	target string // the import path
}

func (i imported) test() bool { return strings.HasSuffix(i.file, "_test.go") }

// checkPlacement returns an error if the package of a file has no layer.
func checkPlacement(file string) error {
	if _, found := entryOf(parent(file)); !found {
		return fmt.Errorf("%s has no layer: add its directory to the table in internal/house/layers_test.go", file)
	}
	return nil
}

// check returns an error if the import is not allowed.
func (i imported) check() error {
	if err := checkPlacement(i.file); err != nil {
		return err
	}
	from, _ := entryOf(parent(i.file))
	dir, ours := strings.CutPrefix(i.target, module+"/")
	if !ours {
		return i.checkForeign(from)
	}
	to, found := entryOf(dir)
	if !found {
		return fmt.Errorf("%s imports %s, which has no layer: add it to the table in internal/house/layers_test.go",
			i.file, i.target)
	}
	if at := parent(i.file); families[dir] && at != dir && at != "cmd/parley" {
		return fmt.Errorf("%s imports %s: only the root command imports a family of commands", i.file, i.target)
	}
	if from == to || allowed(from, to) || i.test() && allowedInTests(from, to, dir) {
		return nil
	}
	return fmt.Errorf("%s imports %s: %s", i.file, i.target, reason(from, to))
}

// checkForeign checks the import of a package that is not in the table.
func (i imported) checkForeign(from string) error {
	if i.target == module {
		return fmt.Errorf("%s imports the root of the module, which has no package", i.file)
	}
	if withoutIO[from] && doesIO[i.target] && !i.test() {
		return fmt.Errorf("%s imports %s, but %s does no I/O", i.file, i.target, from)
	}
	if templates[i.target] && !i.test() {
		return fmt.Errorf("%s imports %s, which makes each program larger", i.file, i.target)
	}
	if withoutHTTP[from] && strings.HasPrefix(i.target, "net/http") && !i.test() {
		return fmt.Errorf("%s imports %s, but transport bindings are in layer 5", i.file, i.target)
	}
	return nil
}

func allowed(from, to string) bool {
	f, t := packages[from], packages[to]
	switch f.kind {
	case inLayer:
		return t.kind == inLayer && t.layer < f.layer || sameLayer[[2]string{from, to}] ||
			t.kind == adapter && from == "cmd/parley"
	case adapter:
		return t.kind == inLayer && (public(to) || t.layer == 0)
	case testSupport:
		return t.kind == testSupport || public(to) && t.kind == inLayer
	case top:
		return public(to) && t.kind != top
	default: // specification
		return t.kind == inLayer && t.layer == 0
	}
}

// allowedInTests reports whether a test may also import another package: any public package, test support,
// the specification and, in the tests of test support, internal packages.
func allowedInTests(from, to, dir string) bool {
	f, t := packages[from], packages[to]
	return t.kind == specification || t.kind == testSupport || f.kind == testSupport && t.kind == inLayer ||
		t.kind != top && public(dir)
}

// public reports whether a program outside the repository may import the package in a directory.
func public(dir string) bool {
	return !strings.HasPrefix(dir, "cmd/") && !strings.Contains("/"+dir+"/", "/internal/")
}

// reason explains why a package must not import another.
func reason(from, to string) string {
	f, t := packages[from], packages[to]
	switch {
	case t.kind == specification:
		return "only tests import " + to
	case t.kind == testSupport:
		return "only tests and top packages import " + to
	case t.kind == top || t.kind == rules:
		return "no package imports " + to
	case f.kind != inLayer:
		return fmt.Sprintf("%s must not import internal packages", from)
	case t.kind == adapter:
		return "only the program imports " + to
	case f.layer == t.layer:
		return fmt.Sprintf("both are in layer %d, and packages in one layer do not import each other", f.layer)
	default:
		return fmt.Sprintf("a package imports only from lower layers, and this import goes from layer %d up to layer %d",
			f.layer, t.layer)
	}
}
