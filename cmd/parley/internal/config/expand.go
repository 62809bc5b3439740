package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Values are the values of references. A nil function has no values.
type Values struct {
	// Env returns an environment variable, as os.LookupEnv does.
	Env func(name string) (string, bool)
	// Input asks the user for a value that a server refers to. It is called once for each reference.
	Input func(in *Input, server string) (string, error)
	// Secret returns a secret of the system's keyring.
	Secret func(service, account string) (string, error)
	// Workspace is the directory that ${workspaceFolder} refers to.
	Workspace string
	// Home is the directory that ${userHome} refers to.
	Home string
}

// maxSecretFile is the maximum size of a file that a reference names, in bytes.
const maxSecretFile = 1 << 20

var (
	variable  = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
	qualified = regexp.MustCompile(`^\$\{(env|input|file|keyring):([^}]+)\}`)
)

// ownReference matches references that only parley has: another program that reads its file does not read a file or the
// keyring because of them, so parley does not either.
var ownReference = regexp.MustCompile(`\$\{(?:file|keyring):[^}]*\}?`)

// OwnReference returns a reference to a file or to the keyring that the server has, or "".
func (s *Server) OwnReference() string {
	for _, text := range s.values() {
		if reference := ownReference.FindString(*text); reference != "" {
			return reference
		}
	}
	return ""
}

// dollar matches $NAME, which Gemini CLI expands.
var dollar = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// expandDollars makes references of $NAME. In a command, a variable that is not set stays, because it may be one of a
// shell.
func (s *Server) expandDollars() {
	ofCommand := map[*string]bool{&s.Command: true}
	for i := range s.Args {
		ofCommand[&s.Args[i]] = true
	}
	for _, text := range s.values() {
		if ofCommand[text] {
			*text = dollar.ReplaceAllString(*text, "$${$1:-$$$1}")
		} else {
			*text = dollar.ReplaceAllString(*text, "$${$1}")
		}
	}
}

// Expand replaces references in text. Other dollar signs stay. The values are not expanded again.
//
//	${NAME}, ${env:NAME}          an environment variable
//	${NAME:-default}              the default if the variable is missing or empty
//	${file:PATH}                  the content of a file, without line feeds at its end
//	${keyring:SERVICE/ACCOUNT}    a secret of the system's keyring
//	${workspaceFolder}, ${workspaceFolderBasename}, ${userHome}, ${pathSeparator}, ${/}
func (v *Values) Expand(text string) (string, error) { return v.expand(text, &Server{folder: "."}) }

// expand is Expand for a value of a server. ${input:ID} refers to an input of its file.
func (v *Values) expand(text string, of *Server) (string, error) {
	var b strings.Builder
	for {
		before, _, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		text = text[len(before):]
		value, length, err := v.reference(text, of)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = text[length:]
	}
}

// reference returns the value of the reference at the beginning of text, and its length.
func (v *Values) reference(text string, of *Server) (value string, length int, err error) {
	if m := qualified.FindStringSubmatch(text); m != nil {
		switch m[1] {
		case "env":
			value, err = v.env(m[2])
		case "input":
			value, err = v.input(m[2], of)
		case "file":
			value, err = v.file(m[2], of.folder)
		case "keyring":
			value, err = v.secret(m[2])
		}
		return value, len(m[0]), err
	}
	if strings.HasPrefix(text, "${/}") {
		return string(filepath.Separator), len("${/}"), nil
	}
	m := variable.FindStringSubmatch(text)
	if m == nil {
		return "", 0, fmt.Errorf("invalid reference %.40q; write ${NAME}, ${NAME:-default}, ${input:ID}, ${file:PATH} or ${keyring:SERVICE/ACCOUNT}", text)
	}
	if value, known := v.predefined(m[1]); known {
		return value, len(m[0]), nil
	}
	if m[2] == "" {
		value, err = v.env(m[1])
	} else if value, _ = v.lookup(m[1]); value == "" {
		value = m[3]
	}
	return value, len(m[0]), err
}

func (v *Values) predefined(name string) (value string, known bool) {
	switch name {
	case "workspaceFolder":
		return v.Workspace, true
	case "workspaceFolderBasename":
		return filepath.Base(v.Workspace), true
	case "userHome":
		return v.Home, true
	case "pathSeparator":
		return string(filepath.Separator), true
	}
	return "", false
}

func (v *Values) lookup(name string) (string, bool) {
	if v.Env == nil {
		return "", false
	}
	return v.Env(name)
}

func (v *Values) env(name string) (string, error) {
	value, ok := v.lookup(name)
	if !ok {
		return "", fmt.Errorf("environment variable %s is not set; set it, or write ${%s:-default}", name, name)
	}
	return value, nil
}

func (v *Values) input(id string, of *Server) (string, error) {
	in := of.inputs[id]
	if in == nil {
		return "", fmt.Errorf("input %q is not in the inputs of the file", id)
	}
	if v.Input == nil {
		return "", fmt.Errorf("input %q has no value", id)
	}
	return v.Input(in, of.Original)
}

// file returns the content of a file. Errors do not contain it.
func (v *Values) file(path, folder string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxSecretFile {
		err = fmt.Errorf("file %s is too large: %d bytes, the limit is %d", path, info.Size(), maxSecretFile)
	}
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

func (v *Values) secret(name string) (string, error) {
	service, account, ok := strings.Cut(name, "/")
	if !ok || service == "" || account == "" {
		return "", errors.New("a reference to the keyring must be ${keyring:SERVICE/ACCOUNT}")
	}
	if v.Secret == nil {
		return "", errors.New("the system has no keyring; use ${file:PATH} or an environment variable")
	}
	value, err := v.Secret(service, account)
	if err != nil {
		return "", fmt.Errorf("keyring: service %q, account %q: %w", service, account, err)
	}
	return value, nil
}
