package config

import (
	"fmt"
	"regexp"
	"strings"
)

var reference = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// expand replaces ${NAME} by what lookup has for it, and ${NAME:-default} by the
// default if that is nothing. A dollar sign without a brace is one.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
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
			return "", fmt.Errorf("%.40q is not understood: write ${NAME} or ${NAME:-default}", text)
		}
		value, ok := lookup(m[1])
		switch {
		case m[2] != "" && value == "":
			value = m[3]
		case !ok && m[2] == "":
			return "", fmt.Errorf("${%s} is not set: set it in the environment, or write ${%s:-default}", m[1], m[1])
		}
		b.WriteString(value)
		text = text[len(m[0]):]
	}
}
