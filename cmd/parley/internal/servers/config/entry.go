package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/host"
)

// entry is an entry of a server that is being read.
type entry struct {
	*Server
	kind   string // the value of type or transport
	source string
}

// serverFields are the members of the entry of a server.
var serverFields = fields[entry]{
	{"type", func(e *entry) any { return &e.kind }},
	{"transport", func(e *entry) any { return &e.kind }},
	{"transportType", func(e *entry) any { return &e.kind }},
	{"command", func(e *entry) any { return special{e.readCommand, &e.Command} }},
	{"args", func(e *entry) any { return &e.Args }},
	{"env", func(e *entry) any { return &e.Env }},
	{"envFile", func(e *entry) any { return &e.EnvFile }},
	{"cwd", func(e *entry) any { return &e.Dir }},
	{"confine", func(e *entry) any { return &e.Confine }},
	{"url", func(e *entry) any { return special{e.readURL, &e.URL} }},
	{"httpUrl", func(e *entry) any { return reader(e.readURL) }},
	{"serverUrl", func(e *entry) any { return reader(e.readURL) }},
	{"headers", func(e *entry) any { return &e.Headers }},
	{"disabled", func(e *entry) any { return &e.Disabled }},
	{"enabled", func(e *entry) any {
		return reader(func(d *document, v *hujson.Value, name string) error {
			enabled, err := d.boolean(v, name)
			e.Disabled = !enabled
			return err
		})
	}},
	{"lazy", func(e *entry) any { return &e.Lazy }},
	{"idle", func(e *entry) any { return &e.Idle }},
	{"startTimeout", func(e *entry) any { return &e.StartTimeout }},
	{"revision", func(e *entry) any { return &e.Revision }},
	{"trusted", func(e *entry) any { return &e.Trusted }},
	{"roots", func(e *entry) any { return list{&e.Roots} }},
	{"sharing", func(e *entry) any { return &e.Sharing }},
	{"inputLimits", func(e *entry) any { return &e.InputLimits }},
	{"extensions", func(e *entry) any { return &e.Extensions }},
	{"credentials", func(e *entry) any {
		return reader(func(d *document, v *hujson.Value, name string) error {
			e.Credentials = new(Credentials)
			return readOwn(d, e.Credentials, credentialFields, v, name, ".")
		})
	}},
	{"callerHeaders", func(e *entry) any { return &e.CallerHeaders }},
	{"noResource", func(e *entry) any { return &e.NoResource }},
	{"assumePkce", func(e *entry) any { return &e.AssumePKCE }},
	{"maxResult", func(e *entry) any { return &e.MaxResult }},
	{"prefix", func(e *entry) any { return &e.Prefix }},
	{"tools", func(e *entry) any { return selection(&e.Tools, toolFields) }},
	{"prompts", func(e *entry) any { return selection(&e.Prompts, promptFields) }},
	{"includeTools", func(e *entry) any { return reader(list{&e.Tools.Only}.read) }},
	{"excludeTools", func(e *entry) any { return reader(list{&e.Tools.Hide}.read) }},
	{"disabledTools", func(e *entry) any { return reader(list{&e.Tools.Hide}.read) }},
	{"origin", func(e *entry) any { return &e.Origin }},
	{"source", func(e *entry) any { return &e.source }},
}

// otherMembers are members of entries that other programs read and parley does not, with what a warning adds. Without
// them, parley is stricter or does no harm.
var otherMembers = []struct{ name, hint string }{
	{"autoApprove", ""}, {"alwaysAllow", ""}, {"description", ""}, {"trust", ""},
	// Claude Code and Gemini CLI count milliseconds, Cline and Roo Code seconds.
	{"timeout", requestTimeoutHint}, {"tool_timeout_sec", requestTimeoutHint},
}

const requestTimeoutHint = "; it limits the requests of other programs. To limit the start of the server, set " +
	"startTimeout"

// nullable are the members for which some programs write null if an entry does not have them. A null limit is an error.
var nullable = []string{
	"type", "transport", "transportType", "command", "args", "env", "envFile", "cwd", "url", "httpUrl", "serverUrl",
	"headers", "disabled", "enabled",
	"includeTools", "excludeTools", "disabledTools", "source",
}

// entryFields are serverFields and otherMembers.
var entryFields = func() fields[entry] {
	all := slices.Clone(serverFields)
	for _, other := range otherMembers {
		all = append(all, field[entry]{other.name, func(*entry) any {
			return reader(func(d *document, v *hujson.Value, what string) error {
				d.warn(v, "%s has no effect%s", what, other.hint)
				return nil
			})
		}})
	}
	return all
}()

// configs has the functions of a host for configurations that only this program needs.
// kinds are the values of type as programs spell them, in lower case and without hyphens and underscores. The value is
// whether the server is a program.
var kinds = map[string]bool{
	"stdio": true, "local": true, "command": true,
	"http": false, "sse": false, "streamablehttp": false, "streamable": false, "httpstream": false, "remote": false,
}

// readURL reads a URL, which members of several names can have.
func (s *Server) readURL(d *document, v *hujson.Value, what string) (err error) {
	if s.URL != "" {
		return d.errorf(v, "server %q: must not have two URLs", s.Original)
	}
	s.URL, err = d.text(v, what)
	return err
}

// readCommand reads a command, which can be an object.
func (s *Server) readCommand(d *document, v *hujson.Value, what string) (err error) {
	if _, ok := v.Value.(*hujson.Object); ok {
		return read(d, s, commandFields, v, what, ".")
	}
	s.Command, err = d.text(v, what)
	return err
}

var commandFields = fields[Server]{
	{"path", func(s *Server) any { return &s.Command }},
	{"args", func(s *Server) any { return &s.Args }},
	{"env", func(s *Server) any { return &s.Env }},
}

// server reads an entry. If dollars is set, $NAME is a reference: Gemini CLI, and programs that have its form of a file
// settings.json, expand it.
func (d *document) server(m member, dollars bool) (*Server, error) {
	s := &Server{
		Name: validName(m.name), Original: m.name, Source: d.at(m.value),
		foreign: d.isAt(editorFiles...), folder: filepath.Dir(d.path), inputs: d.inputs(),
	}
	what := fmt.Sprintf("server %q", m.name)
	e := &entry{Server: s}
	withoutNull(m.value, nullable...)
	if err := read(d, e, entryFields, m.value, what, ": "); err != nil {
		return nil, err
	}
	err := s.check(e.kind)
	if err != nil && e.source == "extension" {
		err = errors.New("belongs to an extension of the editor, so parley cannot start it")
	}
	if err == nil {
		err = s.Settings().Check()
	}
	if err != nil {
		return nil, d.errorf(m.value, "%s: %w", what, err)
	}
	if dollars {
		s.expandDollars()
	}
	d.warnUnused(s, m.value, what)
	return s, nil
}

func (d *document) warnUnused(s *Server, v *hujson.Value, what string) {
	for _, p := range slices.Concat(s.Env, s.Headers) {
		if name := dollar.FindString(p.Value); name != "" && name == p.Value {
			d.warn(v, "%s: %s is text, not a variable; write ${%s}", what, name, name[1:])
		}
	}
	for _, unused := range []struct {
		given       bool
		field, with string
	}{
		{s.URL != "" && s.Args != nil, "args", "url"}, {s.URL != "" && s.Env != nil, "env", "url"},
		{s.URL != "" && s.EnvFile != "", "envFile", "url"},
		{s.URL != "" && s.Dir != "", "cwd", "url"}, {s.Command != "" && s.Headers != nil, "headers", "command"},
	} {
		if unused.given {
			d.warn(v, "%s: %s has no effect on a server with a %s", what, unused.field, unused.with)
		}
	}
}

// check validates the combination of members. kind is the value of "type".
func (s *Server) check(kind string) error {
	switch {
	case s.Command == "" && s.URL == "":
		return errors.New("must have a command or a url")
	case s.Command != "" && s.URL != "":
		return errors.New("must not have both a command and a url")
	}
	if s.LoginSettings != (LoginSettings{}) && s.URL == "" {
		return errors.New("noResource and assumePkce are settings of logins and require a url")
	}
	if s.Confine != nil && s.Command == "" {
		return errors.New("confine requires a command")
	}
	if s.Credentials != nil {
		if s.URL == "" {
			return errors.New("credentials require a url")
		}
		if s.Sharing == host.SharingEveryone {
			return errors.New("credentials of callers cannot be combined with sharing \"everyone\"")
		}
		if err := s.Credentials.check(); err != nil {
			return err
		}
	}
	if err := s.checkCallerHeaders(); err != nil {
		return err
	}
	if u, err := url.Parse(s.URL); s.URL != "" && !strings.Contains(s.URL, "${") &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("the url must begin with http:// or https:// and contain a host")
	}
	if kind == "" {
		return nil
	}
	program, known := kinds[strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(kind))]
	switch {
	case !known:
		return fmt.Errorf("unknown type %q; use stdio or http", kind)
	case program && s.Command == "":
		return fmt.Errorf("type %q requires a command", kind)
	case !program && s.URL == "":
		return fmt.Errorf("type %q requires a url", kind)
	}
	return nil
}

// checkCallerHeaders validates the combination of callerHeaders with other members. The files of other programs often
// come with a project, whose authors must not receive the keys of callers.
func (s *Server) checkCallerHeaders() error {
	switch {
	case s.CallerHeaders == nil:
		return nil
	case s.foreign:
		return errors.New("callerHeaders has no effect in the file of another program; add the server to your own " +
			"configuration")
	case s.URL == "":
		return errors.New("callerHeaders requires a url, because a program receives no headers; use env for a key " +
			"that all callers share")
	case s.Credentials != nil:
		return errors.New("must not have both credentials and callerHeaders")
	case s.Sharing == host.SharingEveryone:
		return errors.New("callerHeaders cannot be combined with sharing \"everyone\"")
	}
	return nil
}

// toolFields are the fields of a selection of tools, promptFields the fields of a selection of prompts.
var (
	promptFields = fields[host.Selection]{
		{"only", func(s *host.Selection) any { return list{&s.Only} }},
		{"hide", func(s *host.Selection) any { return list{&s.Hide} }},
		{"rename", func(s *host.Selection) any { return &s.Rename }},
	}
	toolFields = append(slices.Clone(promptFields), fields[host.Selection]{
		{"readOnly", func(s *host.Selection) any { return &s.Annotations.ReadOnlyHint }},
		{"nonDestructive", func(s *host.Selection) any { return absent{&s.Annotations.DestructiveHint} }},
		{"idempotent", func(s *host.Selection) any { return &s.Annotations.IdempotentHint }},
		{"closedWorld", func(s *host.Selection) any { return absent{&s.Annotations.OpenWorldHint} }},
	}...)
)

// selection returns the place of a selection: an object, or an array with the patterns of only.
func selection(of *host.Selection, by fields[host.Selection]) special {
	whole := object[host.Selection]{of, by}
	return special{func(d *document, v *hujson.Value, what string) error {
		if _, ok := v.Value.(*hujson.Array); ok {
			return list{&of.Only}.read(d, v, what)
		}
		return whole.read(d, v, what)
	}, whole}
}

var confineFields = fields[confine.Rules]{
	{"read", func(r *confine.Rules) any { return &r.Read }},
	{"write", func(r *confine.Rules) any { return &r.Write }},
	{"network", func(r *confine.Rules) any { return &r.Network }},
	{"memory", func(r *confine.Rules) any {
		return special{func(d *document, v *hujson.Value, what string) (err error) {
			if r.Memory, err = d.text(v, what); err != nil {
				return err
			}
			if _, err := confine.ParseSize(r.Memory); err != nil {
				return d.errorf(v, "%s %w", what, err)
			}
			return nil
		}, &r.Memory}
	}},
	{"processes", func(r *confine.Rules) any { return &r.Processes }},
	{"files", func(r *confine.Rules) any { return &r.Files }},
	{"bestEffort", func(r *confine.Rules) any { return &r.BestEffort }},
}

var inputLimitFields = fields[host.InputLimits]{
	{"perCall", func(l *host.InputLimits) any { return &l.PerCall }},
	{"perMinute", func(l *host.InputLimits) any { return &l.PerMinute }},
	{"maxTokens", func(l *host.InputLimits) any { return &l.MaxTokens }},
}

var extensionFields = fields[host.Extension]{
	{"settings", func(e *host.Extension) any { return special{readSettings(&e.Settings), &e.Settings} }},
	{"requests", func(e *host.Extension) any { return &e.Requests }},
	{"notifications", func(e *host.Extension) any { return &e.Notifications }},
}

// extensions reads the extensions of a server, by ID.
func (d *document) extensions(to *[]host.Extension, v *hujson.Value, what string) error {
	members, err := d.members(v, what)
	if err != nil {
		return err
	}
	for _, m := range members {
		e := host.Extension{ID: m.name}
		if err := readOwn(d, &e, extensionFields, m.value, fmt.Sprintf("%s[%q]", what, m.name), "."); err != nil {
			return err
		}
		*to = append(*to, e)
	}
	return nil
}

// readSettings reads the settings of an extension, an object.
func readSettings(to *json.RawMessage) reader {
	return func(d *document, v *hujson.Value, what string) error {
		if _, ok := v.Value.(*hujson.Object); !ok {
			return d.errorf(v, "%s must be an object", what)
		}
		object := v.Clone()
		object.Standardize()
		object.Minimize()
		*to = object.Pack()
		return nil
	}
}
