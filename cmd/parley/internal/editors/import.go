package editors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
)

// Source is a file whose servers can be imported.
type Source struct {
	Path    string
	Title   string // of the client; empty if it is not known
	Project bool   // the file was found in the directory of a project, so that anyone may have written it
}

// Origin describes the source, for the entries of its servers.
func (s Source) Origin() string {
	if s.Title == "" {
		return s.Path
	}
	return s.Title + " (" + s.Path + ")"
}

// Sources returns the files that exist of some clients.
func Sources(p *Place, clients []*Client) (sources []Source) {
	for _, c := range clients {
		for _, path := range c.Files(p) {
			if _, err := os.Stat(path); err == nil {
				sources = append(sources, Source{path, c.Title, path == c.ProjectFile(p)})
			}
		}
	}
	return sources
}

// Import is a server of a source.
type Import struct {
	Server *config.Server // nil if the entry cannot be used
	Name   string
	Source Source
	// Same is where the user's configuration or an earlier source has the same server.
	Same string
	// Taken is where the user's configuration or an earlier source has another server of the name.
	Taken string
	Err   error // why the entry cannot be used
}

// Plan reads the sources, and compares their servers with those of the user's configuration. It returns the errors of
// sources that cannot be read joined; the other sources are in the plan.
func Plan(own *config.Config, workspace string, sources []Source) (plan []*Import, err error) {
	known := make(map[string]*config.Server)
	where := make(map[string]string)
	for i := range own.Servers {
		s := &own.Servers[i]
		known[s.Name], where[s.Name] = s, s.Source
	}
	var errs []error
	for _, source := range sources {
		c, err := (&config.Files{Workspace: workspace, Paths: []string{source.Path}, Foreign: true}).Load()
		if c == nil {
			if !errors.Is(err, config.ErrNoServers) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			continue
		}
		for _, problem := range c.Problems {
			plan = append(plan, &Import{Name: problem.Name, Source: source, Err: problem.Err})
		}
		for i := range c.Servers {
			s := &c.Servers[i]
			imported := &Import{Server: s, Name: s.Name, Source: source}
			if imported.Err = s.Detach(); imported.Err == nil && s.Credentials != nil {
				imported.Err = fmt.Errorf("%s: server %q has credentials; copy the entry by hand", s.Source, s.Name)
			}
			if reference := s.OwnReference(); reference != "" && imported.Err == nil {
				imported.Err = fmt.Errorf("%s: server %q has the reference %s, which parley does not resolve for other programs; add the server with parley add", s.Source, s.Name, reference)
			}
			if other := known[s.Name]; other != nil && imported.Err == nil {
				if config.Same(s, other) {
					imported.Same = where[s.Name]
				} else {
					imported.Taken = where[s.Name]
				}
			} else if imported.Err == nil {
				known[s.Name], where[s.Name] = s, s.Source
			}
			s.Origin = source.Origin()
			plan = append(plan, imported)
		}
	}
	return plan, errors.Join(errs...)
}
