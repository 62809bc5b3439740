package config

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Secret is a value of a server that looks like a secret, and is not a reference.
type Secret struct {
	Name  string // of the variable, header field, parameter or flag
	Where string // in words, such as "header Authorization"
}

// secretName matches the names of values that are secret.
var secretName = regexp.MustCompile(`(?i)(authorization|token|secret|passw|api[-_]?key|access[-_]?key|private[-_]?key|credential|cookie|^key$|[-_]key$)`)

// IsSecretName reports whether a value with a name is probably secret.
func IsSecretName(name string) bool { return secretName.MatchString(name) }

// PlainSecrets returns the values of a server that look like secrets by their names, and are stored as plain text.
func PlainSecrets(s *Server) (secrets []Secret) {
	check := func(name, value, where string) {
		if secretName.MatchString(name) && isPlain(value) {
			secrets = append(secrets, Secret{name, where + " " + name})
		}
	}
	for _, p := range s.Env {
		check(p.Name, p.Value, "env")
	}
	for _, p := range s.Headers {
		check(p.Name, p.Value, "header")
	}
	flag := ""
	for _, arg := range s.Args {
		name, value, hasValue := strings.Cut(arg, "=")
		isFlag := strings.HasPrefix(arg, "-")
		switch {
		case isFlag && hasValue:
			check(strings.TrimLeft(name, "-"), value, "argument")
		case flag != "" && !isFlag:
			check(flag, arg, "argument")
		}
		flag = ""
		if isFlag && !hasValue {
			flag = strings.TrimLeft(arg, "-")
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return secrets
	}
	if password, has := u.User.Password(); has && isPlain(password) {
		secrets = append(secrets, Secret{"password", "the password of the url"})
	}
	query := u.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		check(name, strings.Join(query[name], ""), "parameter of the url")
	}
	return secrets
}

// isPlain reports whether a value has no reference, and is more than the name of a scheme.
func isPlain(value string) bool {
	return strings.TrimSpace(value) != "" && !strings.Contains(value, "${")
}
