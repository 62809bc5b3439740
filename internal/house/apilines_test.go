package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-mcp/parley/internal/must"
)

// api is the exported API of one package.
type api struct {
	dir   string
	lines []string // one for each exported symbol, sorted

	types   map[string]ast.Expr // declarations of types, exported or not
	methods map[string][]method
}

// method is a method of a named type.
type method struct {
	pointer bool
	name    string
	line    string // its signature
}

func newAPI(tree fs.FS, dir string, files []string) (api, error) {
	a := api{dir: dir, types: make(map[string]ast.Expr), methods: make(map[string][]method)}
	for _, name := range files {
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return api{}, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			return api{}, err
		}
		for _, d := range f.Decls {
			a.declare(d)
		}
	}
	for name, declared := range a.types {
		if ast.IsExported(name) {
			a.members(name, declared, nil)
			a.addMethods(name, name, false)
		}
	}
	slices.Sort(a.lines)
	a.lines = slices.Compact(a.lines)
	return a, nil
}

func (a *api) add(format string, args ...any) {
	a.lines = append(a.lines, fmt.Sprintf(format, args...))
}

func (a *api) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			receiver, pointer := receiverOf(d.Recv.List[0].Type)
			a.methods[receiver] = append(a.methods[receiver],
				method{pointer, d.Name.Name, d.Name.Name + signature(d.Type)})
		} else if d.Name.IsExported() {
			a.add("func %s%s", d.Name.Name, signature(d.Type))
		}
	case *ast.GenDecl:
		var inherited ast.Expr // the type of a constant that states neither type nor value
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				a.declareType(spec)
			case *ast.ValueSpec:
				if spec.Type != nil || spec.Values != nil {
					inherited = spec.Type
				}
				a.declareValues(d.Tok, spec, inherited)
			}
		}
	}
}

func (a *api) declareType(spec *ast.TypeSpec) {
	a.types[spec.Name.Name] = spec.Type
	if !spec.Name.IsExported() {
		return
	}
	name := spec.Name.Name + parameters(spec.TypeParams, true)
	switch declared := spec.Type.(type) {
	case *ast.StructType:
		a.add("type %s struct", name)
	case *ast.InterfaceType:
		a.add("type %s interface", name)
	default:
		if spec.Assign.IsValid() {
			name += " ="
		}
		a.add("type %s %s", name, text(declared))
	}
}

func (a *api) declareValues(tok token.Token, spec *ast.ValueSpec, declared ast.Expr) {
	for i, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		line := fmt.Sprintf("%s %s", tok, name.Name)
		if declared != nil {
			line += " " + text(declared)
		}
		if tok == token.CONST && i < len(spec.Values) {
			line += " = " + text(spec.Values[i])
		}
		a.add("%s", line)
	}
}

// members adds the fields of a struct and the methods of an interface. Fields and methods of embedded unexported types
// belong to the type that embeds them.
func (a *api) members(owner string, declared ast.Expr, embedding []string) {
	switch declared := declared.(type) {
	case *ast.StructType:
		for _, field := range declared.Fields.List {
			for _, name := range field.Names {
				if name.IsExported() {
					a.lines = append(a.lines, fmt.Sprintf("type %s struct, %s %s", owner, name.Name, text(field.Type)))
				}
			}
			if field.Names == nil {
				a.embedded(owner, field.Type, "struct", embedding)
			}
		}
	case *ast.InterfaceType:
		for _, m := range declared.Methods.List {
			for _, name := range m.Names {
				if function, ok := m.Type.(*ast.FuncType); ok {
					a.lines = append(a.lines, fmt.Sprintf("type %s interface, %s%s", owner, name.Name,
						signature(function)))
				}
			}
			if m.Names == nil {
				a.embedded(owner, m.Type, "interface", embedding)
			}
		}
	}
}

func (a *api) embedded(owner string, expr ast.Expr, kind string, embedding []string) {
	name, pointer := receiverOf(expr)
	declared, local := a.types[name]
	if name != "" && !ast.IsExported(name) && local {
		if !slices.Contains(embedding, name) {
			a.members(owner, declared, append(embedding, name))
			if kind == "struct" {
				a.addMethods(owner, name, pointer)
			}
		}
		return
	}
	a.lines = append(a.lines, fmt.Sprintf("type %s %s, embedded %s", owner, kind, text(expr)))
}

// addMethods adds the exported methods of the type declared as methods of owner. The methods of an embedded pointer
// belong to the method set of the value.
func (a *api) addMethods(owner, declared string, throughPointer bool) {
	for _, m := range a.methods[declared] {
		receiver := owner
		if m.pointer && !throughPointer {
			receiver = "*" + owner
		}
		if ast.IsExported(m.name) {
			a.lines = append(a.lines, fmt.Sprintf("method (%s) %s", receiver, m.line))
		}
	}
}

// receiverOf returns the name of the type in a receiver or an embedded field, without a package and type arguments.
// The name is empty for a type of another package.
func receiverOf(expr ast.Expr) (name string, pointer bool) {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		name, _ = receiverOf(expr.X)
		return name, true
	case *ast.IndexExpr:
		return receiverOf(expr.X)
	case *ast.IndexListExpr:
		return receiverOf(expr.X)
	case *ast.Ident:
		return expr.Name, false
	}
	return "", false
}

// signature returns type parameters, parameters and results, without the names of parameters and results.
func signature(f *ast.FuncType) string {
	s := parameters(f.TypeParams, true) + "(" + parameters(f.Params, false) + ")"
	if f.Results.NumFields() == 1 {
		return s + " " + parameters(f.Results, false)
	}
	if f.Results != nil {
		return s + " (" + parameters(f.Results, false) + ")"
	}
	return s
}

// parameters returns a list of parameters: types alone, or names and types in brackets for type parameters.
func parameters(list *ast.FieldList, ofType bool) string {
	if list == nil {
		return ""
	}
	var all []string
	for _, field := range list.List {
		for i := range max(1, len(field.Names)) {
			if ofType {
				all = append(all, field.Names[i].Name+" "+text(field.Type))
			} else {
				all = append(all, text(field.Type))
			}
		}
	}
	if ofType {
		return "[" + strings.Join(all, ", ") + "]"
	}
	return strings.Join(all, ", ")
}

// text returns the source text of an expression on one line. The parameters of function types lose their names.
func text(expr ast.Expr) string {
	if f, ok := expr.(*ast.FuncType); ok {
		return "func" + signature(f)
	}
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), expr); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestAPILinesShowEverySymbol(t *testing.T) {
	apis, err := readAPIs(fstest.MapFS{
		"server/a.go": {Data: []byte(`package server

const (
	A Kind = iota
	B
	c
)

const Code = -32000

var ErrClosed, errPrivate = errors.New("closed"), errors.New("private")

type Kind int

type Text = string

type Handler func(ctx context.Context, in string) (out string, err error)

type Server struct {
	Name, Title string
	limits
	*mux
	http.Handler
	private int
}

type limits struct{ Max int }

func (limits) Reset() {}

type mux struct{}

func (m *mux) Handle(pattern string) {}

type Conn[T any] interface {
	io.Closer
	Send(T) error
}

func (s *Server) Run(ctx context.Context) error { return nil }
func (s Server) hidden()                        {}

func AddTool[In, Out any](s *Server, f func(ctx context.Context, in In) (Out, error)) {}
`)},
		"server/a_test.go":                {Data: []byte("package server\n\nfunc Test() {}\n")},
		"internal/serve/modern/modern.go": {Data: []byte("package modern\n\nfunc F() {}\n")},
		"examples/a/main.go":              {Data: []byte("package main\n\nfunc F() {}\n")},
		"cmd/parley/demo/demo.go":         {Data: []byte("package demo\n\nfunc F() {}\n")},
		"auth/oauth/oauth_linux.go":       {Data: []byte("package oauth\n\nfunc Store() Tokens { return nil }\n")},
	})
	must.That(t, err == nil && len(apis) == 2, "%d packages, %v", len(apis), err)
	got := strings.Join(apis[0].lines, "\n")
	must.CheckThat(t, apis[0].dir == "auth/oauth" && got == "func Store() Tokens", "%s:\n%s", apis[0].dir, got)
	const want = `const A Kind = iota
const B Kind
const Code = -32000
func AddTool[In any, Out any](*Server, func(context.Context, In) (Out, error))
method (*Server) Run(context.Context) error
method (Server) Handle(string)
method (Server) Reset()
type Conn[T any] interface
type Conn interface, Send(T) error
type Conn interface, embedded io.Closer
type Handler func(context.Context, string) (string, error)
type Kind int
type Server struct
type Server struct, Max int
type Server struct, Name string
type Server struct, Title string
type Server struct, embedded http.Handler
type Text = string
var ErrClosed`
	sorted := strings.Split(want, "\n")
	slices.Sort(sorted)
	must.CheckEqual(t, strings.Join(apis[1].lines, "\n"), strings.Join(sorted, "\n"))
}

func TestAPIChangesAreReported(t *testing.T) {
	apis := []api{{dir: "auth/oauth", lines: []string{"func A()", "func B()"}}}
	differences := compareAPIs(map[string][]string{
		"auth_oauth.txt": {"func B()", "func C()"},
		"gone.txt":       {"func D()"},
	}, apis)
	want := "api/auth_oauth.txt: add func A()|api/auth_oauth.txt: remove func C()|api/gone.txt: its package does not " +
		"exist"
	must.CheckEqual(t, strings.Join(differences, "|"), want)
}
