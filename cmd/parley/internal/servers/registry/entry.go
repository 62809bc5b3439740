package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// Choice is one way to use a server.
type Choice struct {
	server *Server
	pkg    *Package   // nil for a remote server
	remote *Transport // nil for a package
}

// Label describes the choice, such as "npm" or "https://example.com/mcp".
func (c *Choice) Label() string {
	if c.remote != nil {
		return c.remote.URL
	}
	return c.pkg.RegistryType + " package " + c.pkg.Identifier
}

// Kind returns the type of the package, or "remote".
func (c *Choice) Kind() string {
	if c.remote != nil {
		return "remote"
	}
	return c.pkg.RegistryType
}

// runtimes are the programs that start packages of a type.
var runtimes = map[string]string{"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}

// Choices returns the ways to use a server that a configuration entry can express, and the reasons why others cannot be
// used.
func Choices(s *Server) (usable []*Choice, reasons []error) {
	for i := range s.Remotes {
		usable = append(usable, &Choice{server: s, remote: &s.Remotes[i]})
	}
	for i := range s.Packages {
		p := &s.Packages[i]
		c := &Choice{server: s, pkg: p}
		switch {
		case runtimes[p.RegistryType] == "":
			reasons = append(reasons, fmt.Errorf("%s: packages of the type %q must be installed by hand", c.Label(),
				p.RegistryType))
		case p.Transport.Type != "stdio":
			reasons = append(reasons,
				fmt.Errorf("%s: start it by hand, because it serves %s and not standard input and output",
					c.Label(), p.Transport.Type))
		default:
			usable = append(usable, c)
		}
	}
	return usable, reasons
}

// Ask returns the value that the user enters, or a reference to it if it is secret.
type Ask func(name string, in Input) (value string, err error)

// Entry returns the configuration entry for a choice. It asks for the values that the description does not set and that
// are required, or have no default and are secret, or are among set. A name in set that the choice does not have, or
// whose value the description sets, is an error.
func (c *Choice) Entry(name string, set []string, ask Ask) (*config.Server, error) {
	v := &values{ask: ask, set: set, known: make(map[string]string)}
	s, err := c.entry(name, v)
	if err == nil {
		err = v.checkSet()
	}
	return s, err
}

func (c *Choice) entry(name string, v *values) (*config.Server, error) {
	s := &config.Server{Name: name, Original: name, Origin: c.server.Name + "@" + c.server.Version}
	if c.remote != nil {
		s.URL = v.expand(c.remote.URL, c.remote.Variables)
		if !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
			v.fail(fmt.Errorf("the url %q must begin with https:// or http://", s.URL))
		}
		for i := range c.remote.Headers {
			s.Headers = v.pair(s.Headers, &c.remote.Headers[i])
		}
		return s, v.err
	}
	return s, c.command(s, v)
}

// command sets the command of a package.
func (c *Choice) command(s *config.Server, v *values) error {
	p := c.pkg
	if err := p.check(); err != nil {
		return err
	}
	s.Command = runtimes[p.RegistryType] // a hint of the description could name any program
	runtime := v.arguments(p.RuntimeArguments)
	if err := p.checkRuntime(runtime); err != nil && v.err == nil {
		return err
	}
	var env []config.Pair
	for i := range p.EnvironmentVariables {
		env = v.pair(env, &p.EnvironmentVariables[i])
	}
	switch p.RegistryType {
	case "npm":
		s.Args = append([]string{"-y"},
			slices.DeleteFunc(runtime, func(a string) bool { return a == "-y" || a == "--yes" })...)
		if base := p.otherRegistry(); base != "" {
			s.Args = append(s.Args, "--registry="+base)
		}
		s.Args = append(s.Args, versioned(p.Identifier, "@", p.Version))
	case "pypi":
		s.Args = append(runtime, versioned(p.Identifier, "@", p.Version))
	case "nuget":
		s.Args = append(runtime, versioned(p.Identifier, "@", p.Version), "--yes")
		if base := p.otherRegistry(); base != "" {
			s.Args = append(s.Args, "--source="+base)
		}
		if len(p.PackageArguments) > 0 {
			s.Args = append(s.Args, "--") // dnx has options after the package, too
		}
	case "oci":
		s.Args = []string{"run", "-i", "--rm"}
		runtime, env = withoutValues(runtime, env)
		for _, e := range env {
			s.Args = append(s.Args, "-e", e.Name)
		}
		runtime = slices.DeleteFunc(runtime,
			func(a string) bool { return slices.Contains([]string{"run", "-i", "--rm", "--interactive"}, a) })
		s.Args = append(append(s.Args, runtime...), image(p))
	}
	s.Args, s.Env = append(s.Args, v.arguments(p.PackageArguments)...), env
	return v.err
}

func versioned(identifier, separator, version string) string {
	if version == "" {
		return identifier
	}
	return identifier + separator + version
}

// image returns the reference of an image. Newer descriptions have the tag and the registry in the identifier.
func image(p *Package) string {
	name := p.Identifier
	if base := p.otherRegistry(); base != "" {
		_, host, _ := strings.Cut(base, "://")
		name = strings.TrimRight(host, "/") + "/" + name
	}
	if last := name[strings.LastIndexByte(name, '/')+1:]; p.Version != "" && !strings.ContainsAny(last, ":@") {
		name += ":" + p.Version
	}
	return name
}

// withoutValues moves environment variables with their values from the arguments of docker to env, so that docker reads
// the values from its own environment: all users of the machine can see the arguments. Variables that configure docker
// itself, or that env has, stay.
func withoutValues(args []string, env []config.Pair) (kept []string, all []config.Pair) {
	for i := 0; i < len(args); i++ {
		option, text, joined := strings.Cut(args[i], "=")
		words := 1
		if !joined && i+1 < len(args) {
			text, words = args[i+1], 2
		}
		name, value, hasValue := strings.Cut(text, "=")
		if (option == "-e" || option == "--env") && hasValue && variableName.MatchString(name) &&
			!configuring.MatchString(name) &&
			!slices.ContainsFunc(env, func(p config.Pair) bool { return p.Name == name }) {
			env = append(env, config.Pair{Name: name, Value: value})
			i += words - 1
			continue
		}
		kept = append(kept, args[i])
	}
	return kept, env
}

// values asks for values, each once. It keeps the first error.
type values struct {
	ask   Ask
	set   []string // names for which the user has a value
	names []string // that can be set
	known map[string]string
	err   error
}

// checkSet returns an error if the user has set a value that does not exist.
func (v *values) checkSet() error {
	for _, name := range v.set {
		if !slices.Contains(v.names, name) {
			known := "it has none"
			if slices.Sort(v.names); len(v.names) > 0 {
				known = "they are " + strings.Join(slices.Compact(v.names), ", ")
			}
			return terminal.Unknown("value", name, v.names, "set only values that the server asks for; "+known)
		}
	}
	return nil
}

// asks notes that the user can set a value, and reports whether the user has.
func (v *values) asks(name string) bool {
	v.names = append(v.names, name)
	return slices.Contains(v.set, name)
}

func (v *values) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// input returns the value of an input. given is false if the entry need not have it.
func (v *values) input(name string, in Input, variables map[string]Input) (value string, given bool) {
	switch {
	case in.Value != "":
		return v.expand(in.Value, variables), true
	case v.err != nil:
		return "", false
	}
	isSet := v.asks(name)
	if value, known := v.known[name]; known {
		return value, value != ""
	}
	if !in.IsRequired && !in.IsSecret && !isSet {
		return literal(in.Default), in.Default != ""
	}
	value, err := v.ask(name, in)
	if err != nil {
		v.fail(err)
		return "", false
	}
	if value == "" && in.IsRequired {
		v.fail(fmt.Errorf("%s is required", name))
		return "", false
	}
	v.known[name] = value
	return value, value != ""
}

// literal escapes the text of a description, which must not have references of parley.
func literal(text string) string { return strings.ReplaceAll(text, "${", "$ {") }

var variable = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// expand replaces {name} by the values of variables. Others stay.
func (v *values) expand(text string, variables map[string]Input) string {
	return variable.ReplaceAllStringFunc(literal(text), func(m string) string {
		name := m[1 : len(m)-1]
		in, known := variables[name]
		if !known {
			return m
		}
		in.IsRequired = in.IsRequired || in.Default == ""
		value, _ := v.input(name, in, nil)
		return value
	})
}

// pair appends an environment variable or a header field.
func (v *values) pair(to []config.Pair, kv *KeyValue) []config.Pair {
	value, given := v.input(kv.Name, kv.Input, kv.Variables)
	if !given {
		return to
	}
	return append(to, config.Pair{Name: kv.Name, Value: value})
}

// arguments returns the arguments of a program.
func (v *values) arguments(from []Argument) (args []string) {
	for _, a := range from {
		name := a.Name
		if a.Type == "positional" {
			name = a.ValueHint
		}
		if a.Type == "named" && a.Value == "" && !a.IsRequired && a.Default == "" && !a.IsSecret && !v.asks(name) {
			continue
		}
		value, given := v.input(name, a.Input, a.Variables)
		switch {
		case a.Type == "named" && given:
			args = append(args, a.Name+"="+value)
		case given:
			args = append(args, value)
		}
	}
	return args
}

// kind is what the program that starts packages of a type accepts from a description. Everything else could name
// another package than the one that the description names, or another registry.
type kind struct {
	name     *regexp.Regexp // of a package, and never a path or a URL
	registry []string       // the URLs of the public registry
	other    bool           // packages of another registry can be named
	switches []string       // runtime arguments without a value
	options  []string       // runtime arguments with a value
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	version   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+!-]*$`)
	archive   = regexp.MustCompile(`(?i)\.(tgz|tar|tar\.gz|zip|whl|nupkg|py|js)$`) // the name of a file
)

var kinds = map[string]kind{
	"npm": {
		name:  regexp.MustCompile(`^(@[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*$`),
		other: true,
		switches: []string{"-y", "--yes", "-q", "--quiet", "--silent", "--ignore-scripts", "--prefer-offline",
			"--prefer-online"},
	},
	"pypi": {
		name: plainName, registry: []string{"https://pypi.org"},
		switches: []string{"-q", "--quiet", "--isolated", "--no-cache", "--refresh", "--no-config"},
		options:  []string{"-p", "--python"},
	},
	"nuget": {
		name: plainName, registry: []string{"https://api.nuget.org", "https://api.nuget.org/v3/index.json"},
		other:    true,
		switches: []string{"-y", "--yes", "--prerelease", "--allow-roll-forward"},
	},
	"oci": {
		name: regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*` +
			`(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$`),
		registry: []string{"https://docker.io", "https://index.docker.io", "https://registry-1.docker.io"}, other: true,
		switches: []string{"run", "-i", "--interactive", "--rm", "--init", "--read-only", "-t", "--tty"},
		options: []string{
			"-e", "--env", "-v", "--volume", "--mount", "-p", "--publish", "--network", "--name", "-w", "--workdir",
			"-u",
			"--user", "-m", "--memory",
			"--cpus", "--add-host", "-l", "--label", "--tmpfs", "--shm-size", "--platform", "--pull", "--gpus",
			"--security-opt",
			"--cap-drop",
		},
	},
}

// configuring matches the names of variables that configure the programs that start packages, or change what they run.
// A description cannot set them.
var configuring = regexp.MustCompile(`(?i)^(npm_|yarn_|uv_|pip_|nuget_|dotnet_|docker_|buildkit_|ld_|dyld_|` +
	`node_options$|node_path$|python(path|home|startup)$|path$|home$|.*_proxy$)`)

// check returns an error if a package is not one of its registry, but a file or something else that the program that
// starts packages accepts.
func (p *Package) check() error {
	k := kinds[p.RegistryType]
	switch {
	case p.Identifier == "":
		return errors.New("the package has no identifier")
	case !k.name.MatchString(p.Identifier), archive.MatchString(p.Identifier), p.Version != "" &&
		!version.MatchString(p.Version):
		return fmt.Errorf("invalid name or version %q of a package; only packages of a registry can be added",
			strings.TrimSpace(p.Identifier+" "+p.Version))
	}
	if base := p.otherRegistry(); base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
			strings.ContainsAny(base, " $'\"\\") || p.RegistryType == "oci" &&
			(u.Path != "" && u.Path != "/" || hasHost(p.Identifier)) {
			return fmt.Errorf("invalid registry %q of a package", base)
		}
		if !k.other {
			return fmt.Errorf("packages of the registry %s must be installed by hand", base)
		}
	}
	for _, e := range p.EnvironmentVariables {
		if configuring.MatchString(e.Name) && e.Value+e.Default != "" || !variableName.MatchString(e.Name) {
			return fmt.Errorf("the variable %q of the package could change what is run", e.Name)
		}
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// hasHost reports whether the identifier of an image names its registry.
func hasHost(image string) bool {
	host, _, found := strings.Cut(image, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// otherRegistry returns the registry of the package if that is not the public one of its type. An image that names the
// same registry needs no other.
func (p *Package) otherRegistry() string {
	base := strings.TrimRight(p.RegistryBaseURL, "/")
	if slices.Contains(kinds[p.RegistryType].registry, base) {
		return ""
	}
	if _, host, _ := strings.Cut(base, "://"); p.RegistryType == "oci" && hasHost(p.Identifier) &&
		strings.HasPrefix(p.Identifier, host+"/") {
		return ""
	}
	return base
}

// checkRuntime returns an error for arguments of the program that starts the package, unless they are known not to name
// another package, image or registry.
func (p *Package) checkRuntime(args []string) error {
	k := kinds[p.RegistryType]
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(args[i], "=")
		switch {
		case slices.Contains(k.switches, args[i]), hasValue && slices.Contains(k.options, name):
		case slices.Contains(k.options, args[i]) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			i++
		default:
			return fmt.Errorf("the runtime argument %q of the package could change what is run; start the package by "+
				"hand",
				args[i])
		}
	}
	return nil
}
