package config

import (
	"fmt"
	"regexp"
	"strings"
)

var reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// Expand replaces ${NAME} by the value that lookup returns, and ${NAME:-default} by the
// default if that value is missing or empty. Other dollar signs stay.
func Expand(text string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, _, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		text = text[len(before):]
		m := reference.FindStringSubmatch(text)
		if m == nil {
			return "", fmt.Errorf("invalid reference %.40q; write ${NAME} or ${NAME:-default}", text)
		}
		value, ok := lookup(m[1])
		switch {
		case m[2] != "" && value == "":
			value = m[3]
		case !ok && m[2] == "":
			return "", fmt.Errorf("environment variable %s is not set; set it, or write ${%s:-default}", m[1], m[1])
		}
		b.WriteString(value)
		text = text[len(m[0]):]
	}
}
