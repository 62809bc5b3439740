package editors

import (
	"regexp"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
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

// opencodeVariable is the notation {env:NAME} and {file:PATH}.
func opencodeVariable(r reference) (string, bool) {
	return "{" + r.kind + ":" + r.name + "}", !r.hasDefault && (r.kind == "env" || r.kind == "file")
}

// codexEntry returns an entry of config.toml.
func codexEntry(o config.Object) config.Object {
	for i := range o {
		if o[i].Name == "headers" {
			o[i].Name = "http_headers"
		}
	}
	return o
}

// opencodeEntry returns an entry of opencode.json.
func opencodeEntry(o config.Object) (entry config.Object) {
	kind := "remote"
	for _, m := range o {
		switch m.Name {
		case "command":
			kind = "local"
			entry = append(entry, config.Member{Name: "command", Value: append([]any{m.Value}, argsOf(o)...)})
		case "args":
		case "env":
			entry = append(entry, config.Member{Name: "environment", Value: m.Value})
		default:
			entry = append(entry, m)
		}
	}
	return append(append(config.Object{{Name: "type", Value: kind}}, entry...),
		config.Member{Name: "enabled", Value: true})
}

// argsOf returns the arguments of an entry.
func argsOf(o config.Object) (args []any) {
	for _, m := range o {
		if words, ok := m.Value.([]string); ok && m.Name == "args" {
			for _, word := range words {
				args = append(args, word)
			}
		}
	}
	return args
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
