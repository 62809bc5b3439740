package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/host"
)

// maxName is the length to which a name is cut before a digest is appended, in bytes.
const maxName = 48

// validName returns the name of a server for the name of an entry: the same name if a host permits it.
// Otherwise other characters than ASCII letters, digits, hyphens and underscores become hyphens. A
// digest of the original name follows if the result is too long or has no letter or digit.
func validName(original string) string {
	if host.CheckName(original) == nil {
		return original
	}
	var b strings.Builder
	word := false // the name has a letter or a digit
	for _, r := range original {
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9':
			word = true
			b.WriteRune(r)
		case r == '_' && strings.HasSuffix(b.String(), "_"):
		case r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-_")
	if word && len(name) <= maxName {
		return name
	}
	return digested(name, original)
}

// digested returns a name with a digest of the original one.
func digested(name, original string) string {
	sum := sha256.Sum256([]byte(original))
	return strings.TrimLeft(name[:min(len(name), maxName)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

// Written returns the names of the servers as they are written in the files, by those that they have in a host. It has
// the names that differ.
func (c *Config) Written() map[string]string {
	names := make(map[string]string)
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Name != s.Original {
			names[s.Name] = s.Original
		}
	}
	return names
}

// separate appends a digest to the names that were changed and become the same as others, unless a file that decides
// has one of them. It removes the other servers whose names are or become the same, and reports each of them: otherwise
// the order of the files would decide which server has the name, and which limits it has. One of a file that decides
// stays, and one of several that are the same.
func (c *Config) separate() {
	for _, all := range c.byName() {
		if len(all) == 1 || preferred(all) != nil {
			continue
		}
		for _, s := range all {
			same := slices.DeleteFunc(slices.Clone(all), func(other *Server) bool { return other.Original != s.Original })
			if s.Name != s.Original && len(same) == 1 {
				s.Name = digested(s.Name, s.Original)
			}
		}
	}
	byName := c.byName()
	var kept []Server
	for i := range c.Servers {
		s := &c.Servers[i]
		all := byName[s.Name]
		if len(all) == 1 {
			kept = append(kept, *s)
			continue
		}
		if one := preferred(all); one == s {
			kept = append(kept, *s)
		} else if one != nil && Same(one, s) && one.Original == s.Original {
			continue
		} else if one != nil {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: server %q is not used, because %s has the name", s.Source, s.Original, one.Source))
		} else {
			c.Problems = append(c.Problems, Problem{s.Original, ambiguous(s, all)})
		}
	}
	c.Servers = kept
}

func (c *Config) byName() map[string][]*Server {
	byName := make(map[string][]*Server)
	for i := range c.Servers {
		s := &c.Servers[i]
		byName[s.Name] = append(byName[s.Name], s)
	}
	return byName
}

// preferred returns the one of several servers with one name that is used, or nil.
func preferred(all []*Server) *Server {
	var deciding []*Server
	same := true
	for _, s := range all {
		if s.decides {
			deciding = append(deciding, s)
		}
		same = same && Same(s, all[0]) && s.Original == all[0].Original
	}
	switch {
	case len(deciding) == 1: // also of servers that are the same, because their files can have other inputs
		return deciding[0]
	case same:
		return all[0]
	}
	return nil
}

func ambiguous(s *Server, all []*Server) error {
	var names, sources []string
	for _, other := range all {
		names, sources = append(names, other.Original), append(sources, other.Source)
	}
	if slices.Equal(names, slices.Repeat([]string{s.Original}, len(names))) {
		return fmt.Errorf("%s: there are several servers %q, at %s; rename or remove one of them", s.Source, s.Original, strings.Join(sources, ", "))
	}
	return fmt.Errorf("%s: the names of the servers %q all become %s; rename one of them", s.Source, names, s.Name)
}
