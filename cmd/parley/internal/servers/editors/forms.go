package editors

import "github.com/parley-mcp/parley/cmd/parley/internal/servers/config"

// shellVariable is the notation ${NAME} and ${NAME:-default}.
func shellVariable(r config.Reference) (string, bool) {
	switch {
	case r.Kind == "env" && r.HasDefault:
		return "${" + r.Name + ":-" + r.Default + "}", true
	case r.Kind == "env":
		return "${" + r.Name + "}", true
	}
	return "", false
}

// plainVariable is the notation ${NAME}.
func plainVariable(r config.Reference) (string, bool) {
	return "${" + r.Name + "}", r.Kind == "env" && !r.HasDefault
}

// qualifiedVariable is the notation ${env:NAME} and ${file:PATH}.
func qualifiedVariable(r config.Reference) (string, bool) {
	return "${" + r.Kind + ":" + r.Name + "}", !r.HasDefault && (r.Kind == "env" || r.Kind == "file")
}

// opencodeVariable is the notation {env:NAME} and {file:PATH}.
func opencodeVariable(r config.Reference) (string, bool) {
	return "{" + r.Kind + ":" + r.Name + "}", !r.HasDefault && (r.Kind == "env" || r.Kind == "file")
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
func editorVariable(r config.Reference) (string, bool) {
	switch r.Kind {
	case "":
		return "${" + r.Name + "}", true
	case "env", "input":
		return "${" + r.Kind + ":" + r.Name + "}", !r.HasDefault
	}
	return "", false
}
