package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// entry is an entry of a server that is being read.
type entry struct {
	*Server
	kind   string // the value of type or transport
	source string
}

// serverMembers are the members of the entry of a server.
var serverMembers = readers[entry]{
	"type": readKind, "transport": readKind, "transportType": readKind,
	"command": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		if _, ok := v.Value.(*hujson.Object); ok {
			return read(d, e.Server, commandMembers, v, name, ".")
		}
		e.Command, err = d.text(v, name)
		return err
	},
	"args": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Args, err = d.texts(v, name)
		return err
	},
	"env": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Env, err = d.pairs(v, name)
		return err
	},
	"envFile": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.EnvFile, err = d.text(v, name)
		return err
	},
	"cwd": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Dir, err = d.text(v, name)
		return err
	},
	"url": readURL, "httpUrl": readURL, "serverUrl": readURL,
	"headers": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Headers, err = d.pairs(v, name)
		return err
	},
	"revision": func(d *document, e *entry, v *hujson.Value, name string) error {
		text, err := d.text(v, name)
		if e.Revision = mcp.Revision(text); err == nil && !e.Revision.Known() {
			err = d.errorf(v, "%s must be one of %q, not %q", name, mcp.Revisions(), text)
		}
		return err
	},
	"disabled": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Disabled, err = d.boolean(v, name)
		return err
	},
	"enabled": func(d *document, e *entry, v *hujson.Value, name string) error {
		enabled, err := d.boolean(v, name)
		e.Disabled = !enabled
		return err
	},
	"trusted": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Trusted, err = d.boolean(v, name)
		return err
	},
	"roots": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		if e.Roots, err = d.texts(v, name); e.Roots == nil {
			e.Roots = []string{}
		}
		return err
	},
	"origin": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Origin, err = d.text(v, name)
		return err
	},
	"source": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.source, err = d.text(v, name)
		return err
	},
	"sharing": func(d *document, e *entry, v *hujson.Value, name string) error {
		text, err := d.text(v, name)
		if err != nil {
			return err
		}
		sharing, ok := sharings[text]
		if !ok {
			return d.errorf(v, `%s must be "automatic", "shared" or "perCaller"`, name)
		}
		e.Sharing = sharing
		return nil
	},
	"inputLimits": func(d *document, e *entry, v *hujson.Value, name string) error {
		return readOwn(d, &e.InputLimits, inputLimitMembers, v, name, ".")
	},
	"extensions": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Extensions, err = d.extensions(v, name)
		return err
	},
	"credentials": func(d *document, e *entry, v *hujson.Value, name string) error {
		e.Credentials = new(Credentials)
		return readOwn(d, e.Credentials, credentialMembers, v, name, ".")
	},
	"lazy": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Lazy, err = d.boolean(v, name)
		return err
	},
	"idle": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.Idle, err = d.duration(v, name)
		return err
	},
	"maxResult": func(d *document, e *entry, v *hujson.Value, name string) (err error) {
		e.MaxResult, err = limit[int](d, v, name)
		return err
	},
	"prefix": func(d *document, e *entry, v *hujson.Value, name string) error {
		prefix, err := d.text(v, name)
		e.Prefix = &prefix
		return err
	},
	"tools": func(d *document, e *entry, v *hujson.Value, name string) error {
		return d.selection(&e.Tools, toolMembers, v, name)
	},
	"prompts": func(d *document, e *entry, v *hujson.Value, name string) error {
		return d.selection(&e.Prompts, promptMembers, v, name)
	},
	"includeTools": func(d *document, e *entry, v *hujson.Value, name string) error {
		return d.patterns(&e.Tools.Only, v, name)
	},
	"excludeTools":  hideTools,
	"disabledTools": hideTools,
}

// otherMembers are members of entries that other programs have. Parley does what is stricter, so it reads files with
// them.
var otherMembers = []string{"autoApprove", "alwaysAllow", "description", "timeout", "trust"}

// nullable are the members for which some programs write null if an entry does not have them. A null limit is an error.
var nullable = []string{
	"type", "transport", "transportType", "command", "args", "env", "envFile", "cwd", "url", "httpUrl", "serverUrl",
	"headers", "disabled", "enabled",
	"includeTools", "excludeTools", "disabledTools", "source",
}

// entryMembers are serverMembers and otherMembers.
var entryMembers = func() readers[entry] {
	all := maps.Clone(serverMembers)
	for _, name := range otherMembers {
		all[name] = func(d *document, _ *entry, v *hujson.Value, name string) error {
			d.warn(v, "%s has no effect", name)
			return nil
		}
	}
	return all
}()

// sharings are the values of sharing.
var sharings = map[string]host.Sharing{"automatic": host.ShareAutomatically, "shared": host.Shared,
	"perCaller": host.PerCaller}

func readKind(d *document, e *entry, v *hujson.Value, name string) (err error) {
	e.kind, err = d.text(v, name)
	return err
}

// kinds are the values of type as programs spell them, in lower case and without hyphens and underscores. The value is
// whether the server is a program.
var kinds = map[string]bool{
	"stdio": true, "local": true, "command": true,
	"http": false, "sse": false, "streamablehttp": false, "streamable": false, "httpstream": false, "remote": false,
}

func readURL(d *document, e *entry, v *hujson.Value, name string) (err error) {
	if e.URL != "" {
		return d.errorf(v, "server %q: must not have two URLs", e.Original)
	}
	e.URL, err = d.text(v, name)
	return err
}

func hideTools(d *document, e *entry, v *hujson.Value, name string) error {
	return d.patterns(&e.Tools.Hide, v, name)
}

// commandMembers are the members of a command that is an object.
var commandMembers = readers[Server]{
	"path": func(d *document, s *Server, v *hujson.Value, name string) (err error) {
		s.Command, err = d.text(v, name)
		return err
	},
	"args": func(d *document, s *Server, v *hujson.Value, name string) (err error) {
		s.Args, err = d.texts(v, name)
		return err
	},
	"env": func(d *document, s *Server, v *hujson.Value, name string) (err error) {
		s.Env, err = d.pairs(v, name)
		return err
	},
}

// server reads an entry. If dollars is set, $NAME is a reference: Gemini CLI, and programs that have its form of a file
// settings.json, expand it.
func (d *document) server(m member, dollars bool) (*Server, error) {
	s := &Server{
		Name: validName(m.name), Original: m.name, Source: fmt.Sprintf("%s:%d", d.path, d.line(m.value)),
		foreign: d.isAt(editorFiles...), folder: filepath.Dir(d.path), inputs: d.inputs(),
	}
	what := fmt.Sprintf("server %q", m.name)
	e := &entry{Server: s}
	withoutNull(m.value, nullable...)
	if err := read(d, e, entryMembers, m.value, what, ": "); err != nil {
		return nil, err
	}
	err := s.check(e.kind)
	if err != nil && e.source == "extension" {
		err = errors.New("is part of an extension of the editor; parley cannot start it")
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
	if s.Credentials != nil {
		if s.URL == "" {
			return errors.New("credentials require a url")
		}
		if s.Sharing == host.Shared {
			return errors.New("credentials of callers require that sharing is not \"shared\"")
		}
		if err := s.Credentials.check(); err != nil {
			return err
		}
	}
	if u, err := url.Parse(s.URL); s.URL != "" && !strings.Contains(s.URL, "${") &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("the url must begin with http:// or https:// and have a host")
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

// toolMembers are the members of a selection of tools, promptMembers those of prompts.
var (
	toolMembers = readers[host.Selection]{
		"only": readOnlyNames, "hide": readHiddenNames, "rename": readNewNames,
		"readOnly":       annotation(func(s *host.Selection) *bool { return &s.ReadOnly }),
		"nonDestructive": annotation(func(s *host.Selection) *bool { return &s.NonDestructive }),
		"idempotent":     annotation(func(s *host.Selection) *bool { return &s.Idempotent }),
		"closedWorld":    annotation(func(s *host.Selection) *bool { return &s.ClosedWorld }),
	}
	promptMembers = readers[host.Selection]{"only": readOnlyNames, "hide": readHiddenNames, "rename": readNewNames}
)

func readOnlyNames(d *document, s *host.Selection, v *hujson.Value, name string) error {
	return d.patterns(&s.Only, v, name)
}

func readHiddenNames(d *document, s *host.Selection, v *hujson.Value, name string) error {
	return d.patterns(&s.Hide, v, name)
}

func readNewNames(d *document, s *host.Selection, v *hujson.Value, name string) error {
	members, err := d.members(v, name)
	if err != nil {
		return err
	}
	s.Rename = make(map[string]string, len(members))
	for _, m := range members {
		if s.Rename[m.name], err = d.text(m.value, name+" "+m.name); err != nil {
			return err
		}
	}
	return nil
}

// annotation reads a condition on the annotations of tools.
func annotation(field func(*host.Selection) *bool) func(*document, *host.Selection, *hujson.Value, string) error {
	return func(d *document, s *host.Selection, v *hujson.Value, name string) (err error) {
		*field(s), err = d.boolean(v, name)
		return err
	}
}

// selection reads a selection: an object, or an array with the patterns of only.
func (d *document) selection(s *host.Selection, by readers[host.Selection], v *hujson.Value, what string) error {
	if _, ok := v.Value.(*hujson.Array); ok {
		return d.patterns(&s.Only, v, what)
	}
	return readOwn(d, s, by, v, what, ".")
}

// patterns appends an array of patterns to those that other members have given. An empty array means that
// no name matches.
func (d *document) patterns(to *[]string, v *hujson.Value, what string) error {
	patterns, err := d.texts(v, what)
	*to = append(append([]string{}, *to...), patterns...)
	return err
}

// inputLimitMembers are the members of inputLimits.
var inputLimitMembers = readers[host.InputLimits]{
	"perCall": func(d *document, l *host.InputLimits, v *hujson.Value, name string) (err error) {
		l.PerCall, err = limit[int](d, v, name)
		return err
	},
	"perMinute": func(d *document, l *host.InputLimits, v *hujson.Value, name string) (err error) {
		l.PerMinute, err = limit[int](d, v, name)
		return err
	},
	"maxTokens": func(d *document, l *host.InputLimits, v *hujson.Value, name string) (err error) {
		l.MaxTokens, err = limit[int64](d, v, name)
		return err
	},
}

// limit reads a positive number, or -1 for no limit.
func limit[N int | int64](d *document, v *hujson.Value, what string) (N, error) {
	if literal, ok := v.Value.(hujson.Literal); ok {
		n, err := strconv.ParseInt(string(literal), 10, 32)
		if err == nil && (n > 0 || n == -1) {
			return N(n), nil
		}
	}
	return 0, d.errorf(v, "%s must be a whole number from 1 to 2147483647, or -1 for no limit", what)
}

// extensionMembers are the members of one of extensions.
var extensionMembers = readers[host.Extension]{
	"settings": func(d *document, e *host.Extension, v *hujson.Value, name string) error {
		if _, ok := v.Value.(*hujson.Object); !ok {
			return d.errorf(v, "%s must be an object", name)
		}
		settings := v.Clone()
		settings.Standardize()
		settings.Minimize()
		e.Settings = settings.Pack()
		return nil
	},
	"requests": func(d *document, e *host.Extension, v *hujson.Value, name string) (err error) {
		e.Requests, err = d.texts(v, name)
		return err
	},
	"notifications": func(d *document, e *host.Extension, v *hujson.Value, name string) (err error) {
		e.Notifications, err = d.texts(v, name)
		return err
	},
}

// extensions reads the extensions of a server, by ID.
func (d *document) extensions(v *hujson.Value, what string) ([]host.Extension, error) {
	members, err := d.members(v, what)
	if err != nil {
		return nil, err
	}
	var all []host.Extension
	for _, m := range members {
		e := host.Extension{ID: m.name}
		if err := readOwn(d, &e, extensionMembers, m.value, fmt.Sprintf("%s[%q]", what, m.name), "."); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
