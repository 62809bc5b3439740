// Package skills serves and reads Agent Skills: directories with instructions for an agent (extension
// io.modelcontextprotocol/skills, stable revision; agentskills.io/specification defines the format).
//
// A server calls [Add] with the file system that contains the skills. A client calls [List] or [Get], and then [Read]
// for each file when it needs it.
//
// # What an agent must know about skills of a server
//
// Skills are untrusted input to the model, and can ask it to run commands. [Read] verifies that a file matches the
// entry of its skill. The digests come from the same server, so they do not show that a skill can be trusted. The host
// of a model must
//
//   - show the model and the user which server a skill comes from, by a name that the host has chosen: the URI and
//     the name of a skill identify it only within its server;
//   - ask the user before a skill is used, bind a stored approval to [Skill.Digest], and ask again when that changes;
//   - ask before the model runs a command while it uses a skill, and ignore the field allowed-tools of the frontmatter;
//   - read the files of a skill only from the skill's server.
package skills

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// Limits of a skill. Every host accepts a skill within them.
const (
	MaxFiles = 512
	MaxSize  = 16 << 20 // bytes of all files
)

const (
	fileName   = "SKILL.md"
	maxDescr   = 1024 // characters of a description
	maxURI     = 8 << 10
	digestHead = "sha256:"
)

// Skill is the entry of a skill in a listing. Each file can be verified with it.
type Skill struct {
	// URI is the URI of the SKILL.md of the skill, such as skill://acme/refunds/SKILL.md.
	URI string
	// Name and Description come from Frontmatter. The name is the last directory of URI. Other skills may have the same
	// name.
	Name, Description string
	// Frontmatter is the whole frontmatter of SKILL.md, as a JSON object.
	Frontmatter json.RawMessage
	// Files are all files of the skill, including SKILL.md and the files of skills in its directory. Nil means that the
	// server generates the contents, so they cannot be verified ("dynamic").
	Files []File
}

// File describes a file of a skill.
type File struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // digest of the contents: "sha256:" and 64 hexadecimal digits
	Size   int64  `json:"size"`   // size of the contents, in bytes
}

// Root returns the URI of the directory of the skill, without a slash at its end.
func (s *Skill) Root() string { return strings.TrimSuffix(s.URI, "/"+fileName) }

// Digest returns a digest of the URIs and digests of all files. Bind a user's approval of the skill to it. It is empty
// if the skill lists no files, which means that an approval must not be stored.
func (s *Skill) Digest() string {
	if s.Files == nil {
		return ""
	}
	files := slices.SortedFunc(slices.Values(s.Files), func(a, b File) int { return strings.Compare(a.URI, b.URI) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s %s\n", len(f.URI), f.URI, f.Digest)
	}
	return digestHead + hex.EncodeToString(h.Sum(nil))
}

// file returns the description of a file of the skill.
func (s *Skill) file(uri string) (File, bool) {
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.URI == uri })
	if i < 0 {
		return File{}, false
	}
	return s.Files[i], true
}

// wireSkill is the form of a Skill in messages.
type wireSkill struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`
}

var dynamic = json.RawMessage(`"dynamic"`)

// MarshalJSON encodes the entry as the extension defines it.
func (s Skill) MarshalJSON() ([]byte, error) {
	w := wireSkill{s.URI, s.Frontmatter, dynamic}
	if s.Files != nil {
		w.Resources, _ = json.Marshal(s.Files) // cannot fail
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes an entry. The error says why an entry must not be used.
func (s *Skill) UnmarshalJSON(raw []byte) error {
	var w wireSkill
	if err := jsonv2.Unmarshal(raw, &w); err != nil {
		return err
	}
	skill := Skill{URI: w.URI, Frontmatter: bytes.Clone(w.Frontmatter)}
	switch {
	case len(w.Resources) == 0:
		return fmt.Errorf(`skill %.200q: resources must be a list of files or "dynamic"`, w.URI)
	case w.Resources[0] == '[':
		skill.Files = []File{}
		if err := jsonv2.Unmarshal(w.Resources, &skill.Files); err != nil {
			return fmt.Errorf("skill %.200q: %w", w.URI, err)
		}
	case !bytes.Equal(w.Resources, dynamic):
		return fmt.Errorf(`skill %.200q: resources must be a list of files or "dynamic", not %.20s`, w.URI, w.Resources)
	}
	if err := skill.complete(); err != nil {
		return fmt.Errorf("skill %.200q: %w", w.URI, err)
	}
	*s = skill
	return nil
}

// complete checks the skill, and sets its name and description.
func (s *Skill) complete() error {
	var about struct {
		Name        any `json:"name"`
		Description any `json:"description"`
	}
	if err := jsonv2.Unmarshal(s.Frontmatter, &about); err != nil || s.Frontmatter[0] != '{' {
		return errors.New("frontmatter must be an object")
	}
	s.Name, _ = about.Name.(string)
	s.Description, _ = about.Description.(string)
	if err := checkName(s.Name); err != nil {
		return err
	}
	if s.Description == "" {
		return errors.New("frontmatter must have a description")
	}
	if err := checkURI(s.URI, s.Name); err != nil {
		return err
	}
	if s.Files == nil {
		return nil
	}
	return s.checkFiles()
}

// Names of skills (agentskills.io/specification, name field).
var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func checkName(name string) error {
	if len(name) > 64 || !nameForm.MatchString(name) {
		return fmt.Errorf("the name must have 1 to 64 lowercase letters, digits and single hyphens, not %.80q", name)
	}
	return nil
}

// checkURI checks the URI of the SKILL.md of a skill.
func checkURI(uri, name string) error {
	u, err := url.Parse(uri)
	switch {
	case len(uri) > maxURI || err != nil || u.Scheme == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the URI must be absolute, and must not have a query or a fragment")
	case !strings.HasSuffix(uri, "/"+fileName):
		return fmt.Errorf("the URI must end with /%s", fileName)
	case path.Base(strings.TrimSuffix(uri, "/"+fileName)) != name:
		return fmt.Errorf("the last directory of the URI must be the name %q", name)
	}
	return nil
}

func (s *Skill) checkFiles() error {
	seen := make(map[string]bool, len(s.Files))
	for _, f := range s.Files {
		rest, inside := strings.CutPrefix(f.URI, s.Root()+"/")
		switch {
		case !inside || len(f.URI) > maxURI || !isRelative(rest):
			return fmt.Errorf("the file %.200q must be in the directory of the skill", f.URI)
		case seen[f.URI]:
			return fmt.Errorf("the file %.200q is listed twice", f.URI)
		case !isDigest(f.Digest):
			return fmt.Errorf("the digest of %.200q must be sha256: and 64 lowercase hexadecimal digits", f.URI)
		case f.Size < 0:
			return fmt.Errorf("the size of %.200q must not be negative", f.URI)
		}
		seen[f.URI] = true
	}
	if !seen[s.URI] {
		return fmt.Errorf("the list of files must have %s", fileName)
	}
	return nil
}

// Path returns the path of a file relative to the directory of the skill, with slashes. The error means that the path
// is not safe on every operating system, because it contains a segment of dots, a backslash, a colon, a control
// character, the name of a Windows device, or a dot or a space at the end of a segment.
func (s *Skill) Path(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, s.Root()+"/")
	name, err := url.PathUnescape(rest)
	if !ok || err != nil || strings.Count(name, "/") != strings.Count(rest, "/") || !isLocal(name) {
		return "", fmt.Errorf("the URI %.200q has no path that is safe on every operating system", uri)
	}
	return name, nil
}

// isRelative reports whether a URI path contains neither empty segments nor dot segments, percent-encoded or
// not.
func isRelative(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		name, err := url.PathUnescape(segment)
		if err != nil || name == "" || name == "." || name == ".." || strings.ContainsAny(segment, "?#") {
			return false
		}
	}
	return true
}

// Names that Windows reserves for devices, even with an extension.
var devices = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *\..*)?$`)

// isLocal reports whether a path with slashes stays in its directory on every operating system.
func isLocal(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		if segment == "" || strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " ") ||
			devices.MatchString(segment) {
			return false
		}
		for _, c := range segment {
			if c < ' ' || c == 0x7f || strings.ContainsRune(`\:<>"|?*`, c) {
				return false
			}
		}
	}
	return true
}

func isDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, digestHead)
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == sha256.Size && strings.ToLower(digits) == digits
}

// digestOf returns the digest of the contents of a file.
func digestOf(contents []byte) string {
	sum := sha256.Sum256(contents)
	return digestHead + hex.EncodeToString(sum[:])
}
