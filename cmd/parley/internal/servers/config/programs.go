package config

import (
	"regexp"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// Codex and opencode name the settings of a server differently. Their entries are translated to entries of mcpServers
// before they are read.

// codexServers reads the tables mcp_servers of Codex's config.toml.
func codexServers(d *document, v *hujson.Value, name string) error {
	servers, err := d.members(v, name)
	if err != nil {
		return err
	}
	for _, m := range servers {
		if entry, ok := m.value.Value.(*hujson.Object); ok {
			fromCodex(entry)
		}
	}
	return readServers(d, v, name)
}

// fromCodex changes an entry of Codex, whose values have no references: other members name variables.
func fromCodex(entry *hujson.Object) {
	env, headers := &hujson.Object{}, &hujson.Object{}
	add := func(to *hujson.Object, name string, value hujson.Value, text string) {
		value.Value = hujson.String(text)
		to.Members = append(to.Members, hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name),
			StartOffset: value.StartOffset}, Value: value})
	}
	var kept []hujson.ObjectMember
	for _, m := range entry.Members {
		switch name := m.Name.Value.(hujson.Literal).String(); name {
		case "env", "http_headers":
			to := env
			if name != "env" {
				to = headers
			}
			object, ok := m.Value.Value.(*hujson.Object)
			if !ok {
				kept = append(kept, m) // an error says so
				continue
			}
			to.Members = append(to.Members, object.Members...)
		case "env_vars": // names, or objects with a name
			array, ok := m.Value.Value.(*hujson.Array)
			for i := 0; ok && i < len(array.Elements); i++ {
				variable := &array.Elements[i]
				if named := variable.Find("/name"); named != nil {
					variable = named
				}
				if text, ok := literalText(variable); ok {
					add(env, text, *variable, "${"+text+"}")
				}
			}
		case "bearer_token_env_var":
			if text, ok := literalText(&m.Value); ok {
				add(headers, "Authorization", m.Value, "Bearer ${"+text+"}")
			}
		case "env_http_headers":
			object, ok := m.Value.Value.(*hujson.Object)
			for i := 0; ok && i < len(object.Members); i++ {
				header := &object.Members[i]
				if text, ok := literalText(&header.Value); ok {
					add(headers, header.Name.Value.(hujson.Literal).String(), header.Value, "${"+text+"}")
				}
			}
		case "enabled_tools":
			kept = append(kept, renamed(m, "includeTools"))
		case "disabled_tools":
			kept = append(kept, renamed(m, "excludeTools"))
		case "startup_timeout_sec":
			kept = append(kept, asStartTimeout(m, time.Second))
		case "startup_timeout_ms":
			kept = append(kept, asStartTimeout(m, time.Millisecond))
		case "required": // of Codex alone
		default:
			kept = append(kept, m)
		}
	}
	for _, all := range []hujson.ObjectMember{asMember("env", env), asMember("headers", headers)} {
		if len(all.Value.Value.(*hujson.Object).Members) > 0 {
			kept = append(kept, all)
		}
	}
	entry.Members = kept
}

func asMember(name string, object *hujson.Object) hujson.ObjectMember {
	at := 0
	if len(object.Members) > 0 {
		at = object.Members[0].Name.StartOffset
	}
	return hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name), StartOffset: at},
		Value: hujson.Value{Value: object, StartOffset: at}}
}

func renamed(m hujson.ObjectMember, name string) hujson.ObjectMember {
	m.Name.Value = hujson.String(name)
	return m
}

// asStartTimeout returns the startTimeout for a member of another program whose value is a number of units. It keeps a
// value that is not a positive number, and the error about it says so.
func asStartTimeout(m hujson.ObjectMember, unit time.Duration) hujson.ObjectMember {
	if literal, ok := m.Value.Value.(hujson.Literal); ok && literal.Kind() == '0' {
		if d := time.Duration(literal.Float() * float64(unit)); d > 0 {
			m.Value.Value = hujson.String(d.String())
		}
	}
	return renamed(m, "startTimeout")
}

// literalText returns a string that can be the name of a variable.
func literalText(v *hujson.Value) (string, bool) {
	literal, ok := v.Value.(hujson.Literal)
	return strings.TrimSpace(literal.String()), ok && literal.Kind() == '"' && literal.String() != ""
}

// isOpencode reports whether a member of mcp is a server of opencode, and not a setting of VS Code.
func isOpencode(m member) bool {
	if m.name == "servers" || m.name == "inputs" {
		return m.value.Find("/type") != nil && m.value.Find("/command") != nil
	}
	return m.value.Find("/command") != nil || m.value.Find("/url") != nil || m.value.Find("/enabled") != nil
}

// fromOpencode changes an entry of opencode: its command is an array, its variables are in environment, and its
// references are {env:NAME} and {file:PATH}. It reports false if the entry only turns a server of another file on or
// off.
func fromOpencode(entry *hujson.Object) bool {
	var kept []hujson.ObjectMember
	for _, m := range entry.Members {
		switch m.Name.Value.(hujson.Literal).String() {
		case "command":
			if array, ok := m.Value.Value.(*hujson.Array); ok && len(array.Elements) > 0 {
				args := renamed(m, "args")
				args.Value.Value = &hujson.Array{Elements: array.Elements[1:]}
				m.Value = array.Elements[0]
				if len(array.Elements) > 1 {
					kept = append(kept, args)
				}
			}
		case "environment":
			m = renamed(m, "env")
		case "timeout": // milliseconds for listing the tools
			m = asStartTimeout(m, time.Millisecond)
		case "oauth": // of opencode alone
			continue
		}
		kept = append(kept, m)
	}
	entry.Members = kept
	for v := range (&hujson.Value{Value: entry}).All() {
		if literal, ok := v.Value.(hujson.Literal); ok && literal.Kind() == '"' {
			v.Value = hujson.String(opencodeReference.ReplaceAllStringFunc(literal.String(), func(r string) string {
				if name, ok := strings.CutPrefix(r, "{env:"); ok {
					return "${" + name
				}
				return "$" + r
			}))
		}
	}
	return len(kept) != 1 || kept[0].Name.Value.(hujson.Literal).String() != "enabled"
}

var opencodeReference = regexp.MustCompile(`\{(?:env|file):[^{}]+\}`)
