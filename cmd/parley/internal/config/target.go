package config

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joho/godotenv"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/transport"
)

// Target returns the target to dial, with the values of references. An error names the member, and
// contains no values.
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
		e.fail(member, fmt.Errorf("%s has no value in the file of another program; add the server to your own configuration", reference))
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
		e.fail("envFile", fmt.Errorf("cannot read %s: each line must be NAME=value", path)) // the error of the parser contains values
		return nil
	}
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}
