package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
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
			reasons = append(reasons, fmt.Errorf("%s: packages of the type %q must be installed by hand", c.Label(), p.RegistryType))
		case p.Transport.Type != "stdio":
			reasons = append(reasons, fmt.Errorf("%s: start it by hand, because it serves %s and not standard input and output", c.Label(), p.Transport.Type))
		default:
			usable = append(usable, c)
		}
	}
	return usable, reasons
}

// Ask returns the value that the user enters, or a reference to it if it is secret.
type Ask func(name string, in Input) (value string, err error)

// Entry returns the configuration entry for a choice. It asks for the values that the description does not set and that
// are required, or have no default and are secret.
func (c *Choice) Entry(name string, ask Ask) (*config.Server, error) {
	s := &config.Server{Name: name, Original: name, Origin: c.server.Name + "@" + c.server.Version}
	v := &values{ask: ask, known: make(map[string]string)}
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
		s.Args = append([]string{"-y"}, slices.DeleteFunc(runtime, func(a string) bool { return a == "-y" || a == "--yes" })...)
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
		for _, e := range env {
			s.Args = append(s.Args, "-e", e.Name)
		}
		runtime = slices.DeleteFunc(runtime, func(a string) bool { return slices.Contains([]string{"run", "-i", "--rm", "--interactive"}, a) })
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

// values asks for values, each once. It keeps the first error.
type values struct {
	ask   Ask
	known map[string]string
	err   error
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
	if value, known := v.known[name]; known {
		return value, value != ""
	}
	if !in.IsRequired && !in.IsSecret {
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
		if a.Type == "named" && a.Value == "" && !a.IsRequired && a.Default == "" && !a.IsSecret {
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
