package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/joho/godotenv"
	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/transport"
)

// Target returns the target to dial, with the values of references. An error names the member, and contains no values.
func (s *Server) Target(values *Values) (client.Target, error) {
	e := &expansion{server: s, values: values}
	var target client.Target
	if s.URL != "" {
		header := make(http.Header, len(s.Headers))
		for _, h := range s.Headers {
			value := e.text("header "+h.Name, h.Value)
			if strings.ContainsAny(value, "\r\n\x00") {
				e.fail("header "+h.Name, fmt.Errorf("value must not contain line feeds"))
			}
			header.Add(h.Name, value)
		}
		target = &client.HTTPTarget{URL: e.text("url", s.URL), Header: header}
	} else {
		options := transport.CommandOptions{Path: e.text("command", s.Command)}
		for _, arg := range s.Args {
			options.Args = append(options.Args, e.text("args", arg))
		}
		options.Env = e.envFile()
		for _, v := range s.Env {
			options.Env = append(options.Env, v.Name+"="+e.text("env "+v.Name, v.Value))
		}
		if s.Dir != "" {
			options.Dir = e.path("cwd", s.Dir)
		}
		if s.Confine != nil {
			e.confine(&options)
		}
		target = &client.CommandTarget{CommandOptions: options}
	}
	if e.err != nil {
		return nil, e.err
	}
	return target, nil
}

// RootPaths returns the directories of Roots, with the values of references. It returns nil if Roots is nil.
func (s *Server) RootPaths(values *Values) ([]string, error) {
	e := &expansion{server: s, values: values}
	var paths []string
	if s.Roots != nil {
		paths = []string{}
	}
	for _, root := range s.Roots {
		paths = append(paths, e.path("roots", root))
	}
	return paths, e.err
}

// expansion expands the members of a server. It keeps the first error.
type expansion struct {
	server *Server
	values *Values
	err    error
}

func (e *expansion) fail(member string, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("%s: %w", member, err)
	}
}

func (e *expansion) text(member, text string) string {
	if e.err != nil {
		return "" // do not ask for the inputs of a server that cannot be started
	}
	if reference := ownReference.FindString(text); reference != "" && e.server.foreign {
		e.fail(member,
			fmt.Errorf("%s is not resolved in a configuration file of another program; add the server to your own "+
				"configuration", reference))
		return ""
	}
	value, err := e.values.expand(text, e.server)
	if err != nil {
		e.fail(member, err)
	}
	return value
}

// path returns a path that may be relative to the directory of the file.
func (e *expansion) path(member, text string) string {
	path := e.text(member, text)
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.server.folder, path)
	}
	return path
}

// confine lets the program of options start with the rules of the server.
func (e *expansion) confine(options *transport.CommandOptions) {
	rules := e.server.Confine.Clone()
	for _, paths := range [][]string{rules.Read, rules.Write} {
		for i, path := range paths {
			absolute, err := filepath.Abs(e.path("confine", e.atHome(path)))
			if err != nil {
				e.fail("confine", err)
			}
			paths[i] = absolute // the program can start in another directory
		}
	}
	if folder := confine.Changes(rules.Write, e.server.folder); folder != "" {
		e.fail("confine", fmt.Errorf("write: %s contains the configuration file, and with it the rules of the server; "+
			"name directories below it, or move the file", folder))
	}
	if e.err != nil {
		return
	}
	var err error
	options.Path, options.Args, err = rules.Wrap(digested("", e.server.folder+"\x00"+e.server.Original), options.Path,
		options.Args)
	if err != nil {
		e.fail("confine", err)
	}
}

// atHome returns a path that does not begin with ~.
func (e *expansion) atHome(path string) string {
	if rest, found := strings.CutPrefix(path, "~"); found && (rest == "" || rest[0] == '/') {
		return e.values.Home + rest
	}
	return path
}

// envFile returns the variables of the server's file of variables, in the order of their names.
func (e *expansion) envFile() (env []string) {
	if e.server.EnvFile == "" {
		return nil
	}
	path := e.path("envFile", e.server.EnvFile)
	if e.err != nil {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		e.fail("envFile", err)
		return nil
	}
	defer file.Close()
	variables, err := godotenv.Parse(file)
	if err != nil {
		// the error of the parser contains values
		e.fail("envFile", fmt.Errorf("cannot read %s: each line must be NAME=value", path))
		return nil
	}
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// Values are the values of references. A nil function has no values.
type Values struct {
	// Env returns an environment variable, as os.LookupEnv does.
	Env func(name string) (string, bool)
	// Input asks the user for a value that a server refers to. It is called once for each reference.
	Input func(in *Input, server string) (string, error)
	// Secret returns a secret of the system's keyring.
	Secret func(service, account string) (string, error)
	// Workspace is the directory that ${workspaceFolder} refers to.
	Workspace string
	// Home is the directory that ${userHome} refers to.
	Home string
}

// maxSecretFile is the maximum size of a file that a reference names, in bytes.
const maxSecretFile = 1 << 20

// Reference is a reference in a value of a configuration.
type Reference struct {
	Kind       string // env, input, file or keyring; empty for a predefined one, such as ${workspaceFolder}
	Name       string
	Default    string
	HasDefault bool
}

var (
	references = regexp.MustCompile(
		`\$\{(?:(env|input|file|keyring):([^}]+)|([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?|/)\}`)
	predefined = []string{"workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"}
)

// ReplaceReferences returns text with what replace returns for its references. It calls literal with each text between
// them, which stays.
func ReplaceReferences(text string, literal func(text string) error,
	replace func(source string, r Reference) (string, error)) (string, error) {
	var b strings.Builder
	for m := references.FindStringSubmatch(text); m != nil; m = references.FindStringSubmatch(text) {
		before, after, _ := strings.Cut(text, m[0])
		if err := literal(before); err != nil {
			return "", err
		}
		r := Reference{Kind: m[1], Name: cmp.Or(m[2], m[3], "/"), Default: m[5], HasDefault: m[4] != ""}
		if r.Kind == "" && !slices.Contains(predefined, r.Name) {
			r.Kind = "env"
		}
		value, err := replace(m[0], r)
		if err != nil {
			return "", err
		}
		b.WriteString(before + value)
		text = after
	}
	return b.String() + text, literal(text)
}

// ownReference matches references that only parley has: another program that reads its file does not read a file or the
// keyring because of them, so parley does not either.
var ownReference = regexp.MustCompile(`\$\{(?:file|keyring):[^}]*\}?`)

// OwnReference returns a reference to a file or to the keyring that the server has, or "".
func (s *Server) OwnReference() string {
	for _, text := range s.values() {
		if reference := ownReference.FindString(*text); reference != "" {
			return reference
		}
	}
	return ""
}

// dollar matches $NAME, which Gemini CLI expands.
var dollar = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// expandDollars makes references of $NAME. In a command, a variable that is not set stays, because it may be one of a
// shell.
func (s *Server) expandDollars() {
	ofCommand := map[*string]bool{&s.Command: true}
	for i := range s.Args {
		ofCommand[&s.Args[i]] = true
	}
	for _, text := range s.values() {
		if ofCommand[text] {
			*text = dollar.ReplaceAllString(*text, "$${$1:-$$$1}")
		} else {
			*text = dollar.ReplaceAllString(*text, "$${$1}")
		}
	}
}

// Expand replaces references in text. Other dollar signs stay. The values are not expanded again.
//
//	${NAME}, ${env:NAME}          an environment variable
//	${NAME:-default}              the default if the variable is missing or empty
//	${file:PATH}                  the content of a file, without line feeds at its end
//	${keyring:SERVICE/ACCOUNT}    a secret of the system's keyring
//	${workspaceFolder}, ${workspaceFolderBasename}, ${userHome}, ${pathSeparator}, ${/}
func (v *Values) Expand(text string) (string, error) { return v.expand(text, &Server{folder: "."}) }

// expand is Expand for a value of a server. ${input:ID} refers to an input of its file.
func (v *Values) expand(text string, of *Server) (string, error) {
	return ReplaceReferences(text, func(text string) error {
		if at := strings.Index(text, "${"); at >= 0 {
			return fmt.Errorf("invalid reference %.40q; write ${NAME}, ${NAME:-default}, ${input:ID}, ${file:PATH} or "+
				"${keyring:SERVICE/ACCOUNT}", text[at:])
		}
		return nil
	}, func(_ string, r Reference) (string, error) {
		switch r.Kind {
		case "env":
			return v.env(r)
		case "input":
			return v.input(r.Name, of)
		case "file":
			return v.file(r.Name, of.folder)
		case "keyring":
			return v.secret(r.Name)
		}
		separator := string(filepath.Separator)
		return map[string]string{"workspaceFolder": v.Workspace, "workspaceFolderBasename": filepath.Base(v.Workspace),
			"userHome": v.Home, "pathSeparator": separator, "/": separator}[r.Name], nil
	})
}

func (v *Values) env(r Reference) (value string, err error) {
	isSet := false
	if v.Env != nil {
		value, isSet = v.Env(r.Name)
	}
	switch {
	case value == "" && r.HasDefault:
		return r.Default, nil
	case !isSet:
		return "", fmt.Errorf("environment variable %s is not set; set it, or write ${%s:-default}", r.Name, r.Name)
	}
	return value, nil
}

func (v *Values) input(id string, of *Server) (string, error) {
	in := of.inputs[id]
	if in == nil {
		return "", fmt.Errorf("input %q is not defined in the file's inputs", id)
	}
	if v.Input == nil {
		return "", fmt.Errorf("input %q has no value", id)
	}
	return v.Input(in, of.Original)
}

// file returns the content of a file. Errors do not contain it.
func (v *Values) file(path, folder string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	data, err := atomicfile.Read(path, maxSecretFile)
	return strings.TrimRight(string(data), "\r\n"), err
}

func (v *Values) secret(name string) (string, error) {
	service, account, ok := strings.Cut(name, "/")
	if !ok || service == "" || account == "" {
		return "", errors.New("a reference to the keyring must be ${keyring:SERVICE/ACCOUNT}")
	}
	if v.Secret == nil {
		return "", errors.New("the system has no keyring; use ${file:PATH} or an environment variable")
	}
	value, err := v.Secret(service, account)
	if err != nil {
		return "", fmt.Errorf("keyring: service %q, account %q: %w", service, account, err)
	}
	return value, nil
}

// Input is a value that the user enters when a server is started; ${input:ID} refers to it.
type Input struct {
	ID          string
	Description string
	Default     string
	Options     []string // if not empty, the user chooses one
	Secret      bool
}

// inputFields are the members of an input. The type, and members without an effect, change only how an editor asks.
var inputFields = fields[Input]{
	{"type", func(*Input) any { return ignored }},
	{"command", func(*Input) any { return ignored }},
	{"args", func(*Input) any { return ignored }},
	{"id", func(in *Input) any { return &in.ID }},
	{"description", func(in *Input) any { return &in.Description }},
	{"default", func(in *Input) any { return &in.Default }},
	{"options", func(in *Input) any { return special{in.readOptions, &in.Options} }},
	{"password", func(in *Input) any { return &in.Secret }},
}

// readInputs reads an array of inputs.
func (d *document) readInputs(v *hujson.Value, what string) error {
	return d.array(v, what, func(v *hujson.Value, what string) error {
		in := &Input{}
		if err := read(d, in, inputFields, v, what, ": "); err != nil {
			return err
		}
		if in.ID == "" {
			return d.errorf(v, "%s: id is missing", what)
		}
		d.inputs()[in.ID] = in
		return nil
	})
}

// ignored reads a member that has no effect.
var ignored = reader(func(*document, *hujson.Value, string) error { return nil })

// readOptions reads the options of an input: strings, or objects with a value.
func (in *Input) readOptions(d *document, v *hujson.Value, what string) error {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return d.errorf(v, "%s must be an array", what)
	}
	for i := range array.Elements {
		e := &array.Elements[i]
		if _, ok := e.Value.(*hujson.Object); ok {
			members, err := d.members(e, what)
			if err != nil {
				return err
			}
			if e = find(members, "value"); e == nil {
				return d.errorf(&array.Elements[i], "%s[%d]: value is missing", what, i)
			}
		}
		text, err := d.text(e, fmt.Sprintf("%s[%d]", what, i))
		if err != nil {
			return err
		}
		in.Options = append(in.Options, text)
	}
	return nil
}

// inputs returns the inputs of the file by their ids. The file may define them after the servers that
// refer to them, so the servers have the map, not its values.
func (d *document) inputs() map[string]*Input {
	if d.inputsByID == nil {
		d.inputsByID = make(map[string]*Input)
	}
	return d.inputsByID
}
