package editors

import (
	"regexp"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/jsonedit"
)

// reference is a reference of parley's own form.
type reference struct {
	kind       string // env, file, keyring, input, or empty for a predefined one
	name       string
	fallback   string
	hasDefault bool
}

var references = regexp.MustCompile(`\$\{(?:(env|input|file|keyring):([^}]+)|([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?|/)\}`)

// predefined are the references that are no environment variables.
var predefined = map[string]bool{"workspaceFolder": true, "workspaceFolderBasename": true, "userHome": true,
	"pathSeparator": true, "/": true}

// shellVariable is the notation ${NAME} and ${NAME:-default}.
func shellVariable(r reference) (string, bool) {
	switch {
	case r.kind == "env" && r.hasDefault:
		return "${" + r.name + ":-" + r.fallback + "}", true
	case r.kind == "env":
		return "${" + r.name + "}", true
	}
	return "", false
}

// plainVariable is the notation ${NAME}.
func plainVariable(r reference) (string, bool) {
	return "${" + r.name + "}", r.kind == "env" && !r.hasDefault
}

// qualifiedVariable is the notation ${env:NAME} and ${file:PATH}.
func qualifiedVariable(r reference) (string, bool) {
	return "${" + r.kind + ":" + r.name + "}", !r.hasDefault && (r.kind == "env" || r.kind == "file")
}

// editorVariable is the notation of VS Code and Cursor.
func editorVariable(r reference) (string, bool) {
	switch r.kind {
	case "":
		return "${" + r.name + "}", true
	case "env", "input":
		return "${" + r.kind + ":" + r.name + "}", !r.hasDefault
	}
	return "", false
}

// unsupportedError says why a client cannot use a server itself.
type unsupportedError struct {
	client *Client
	reason string
}

func (e *unsupportedError) Error() string { return e.client.Title + " " + e.reason }

// translate returns text with references in the notation of the client.
func (c *Client) translate(text string) (string, error) {
	var b strings.Builder
	at := 0
	for _, m := range references.FindAllStringSubmatchIndex(text, -1) {
		if err := c.checkLiteral(text[at:m[0]]); err != nil {
			return "", err
		}
		b.WriteString(text[at:m[0]])
		at = m[1]
		word := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		r := reference{kind: word(1), name: word(2), fallback: word(5), hasDefault: m[8] >= 0}
		if r.kind == "" {
			r.name = word(3)
			if r.name == "" {
				r.name = "/"
			}
			if !predefined[r.name] {
				r.kind = "env"
			}
		}
		translated, ok := c.reference(r)
		if !ok || r.kind == "input" && !c.inputs {
			return "", &unsupportedError{c, "does not support the reference " + text[m[0]:m[1]]}
		}
		b.WriteString(translated)
	}
	if err := c.checkLiteral(text[at:]); err != nil {
		return "", err
	}
	b.WriteString(text[at:])
	return b.String(), nil
}

var dollar = regexp.MustCompile(`\$[A-Za-z_]`)

// checkLiteral returns an error if the client would take a part of a text for a reference.
func (c *Client) checkLiteral(text string) error {
	if name := dollar.FindString(text); c.dollars && name != "" {
		return &unsupportedError{c, "takes " + name + "… for a variable"}
	}
	return nil
}

// Entry returns the entry with which the client itself starts or connects to a server. It returns an error that begins
// with the title of the client if that is not possible.
func (c *Client) Entry(s *config.Server) (config.Object, error) {
	var first error
	text := func(text string) string {
		translated, err := c.translate(text)
		if first == nil {
			first = err
		}
		return translated
	}
	pairs := func(from []config.Pair) (to []config.Pair) {
		for _, p := range from {
			to = append(to, config.Pair{Name: p.Name, Value: text(p.Value)})
		}
		return to
	}
	if s.URL != "" {
		if c.http == "" {
			return nil, &unsupportedError{c, "does not connect to URLs of its configuration file"}
		}
		e := append(c.begin("http"), config.Member{Name: c.http, Value: text(s.URL)})
		if len(s.Headers) > 0 {
			e = append(e, config.Member{Name: "headers", Value: config.Strings(pairs(s.Headers))})
		}
		return e, first
	}
	switch {
	case s.Dir != "" && !c.dir:
		return nil, &unsupportedError{c, "does not support cwd"}
	case s.EnvFile != "" && !c.envFile:
		return nil, &unsupportedError{c, "does not support envFile"}
	}
	own := &config.Server{Command: text(s.Command), Env: pairs(s.Env), EnvFile: text(s.EnvFile), Dir: text(s.Dir)}
	for _, arg := range s.Args {
		own.Args = append(own.Args, text(arg))
	}
	return append(c.begin("stdio"), own.Members()...), first
}

// begin returns an entry that has only the type of the server, if the client needs it.
func (c *Client) begin(kind string) config.Object {
	if c.typed {
		return config.Object{{Name: "type", Value: kind}}
	}
	return nil
}

// Start returns the entry with which the client starts a program.
func (c *Client) Start(program string, args []string, env []config.Pair) config.Object {
	s := &config.Server{Command: program, Args: args, Env: env}
	return append(c.begin("stdio"), s.Members()...)
}

// Set adds an entry to a file of the client, or replaces the one with its name. Inputs that the server refers to are
// added if the client has inputs.
func (c *Client) Set(f *jsonedit.File, name string, entry config.Object, s *config.Server) error {
	if err := f.Set(entry, c.member, name); err != nil {
		return err
	}
	if c.inputs && s != nil {
		return config.AddInputs(f, s)
	}
	return nil
}

// Get returns an entry of a file of the client as JSON, or nil.
func (c *Client) Get(f *jsonedit.File, name string) []byte { return f.Get(c.member, name) }

// Remove removes an entry from a file of the client. It reports whether there was one.
func (c *Client) Remove(f *jsonedit.File, name string) bool { return f.Remove(c.member, name) }
