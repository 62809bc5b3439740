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
	sum := sha256.Sum256([]byte(original))
	return strings.TrimLeft(name[:min(len(name), maxName)]+"-"+hex.EncodeToString(sum[:4]), "-")
}

// separate removes the servers whose names become the same, and reports each of them: otherwise the
// order in the file would decide which server has the name.
func (c *Config) separate() {
	original := make(map[string][]string)
	for _, s := range c.Servers {
		original[s.Name] = append(original[s.Name], s.Original)
	}
	c.Servers = slices.DeleteFunc(c.Servers, func(s Server) bool {
		same := original[s.Name]
		if len(same) == 1 {
			return false
		}
		c.Problems = append(c.Problems, Problem{s.Original, fmt.Errorf("%s: the names of the servers %q all become %s; rename one of them", s.Source, same, s.Name)})
		return true
	})
}
