package skills_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/skills"
)

// source is a server whose answers the tests write.
type source struct {
	list     string            // the result of skills/list
	files    map[string]string // by URI
	settings string
	reads    []string
	lists    int
}

func (s *source) CallExtension(_ context.Context, method string, _ any,
	_ ...client.CallOption) (json.RawMessage, error) {
	s.lists++
	return json.RawMessage(s.list), nil
}

func (s *source) ReadResource(_ context.Context, uri string, _ ...client.CallOption) (*mcp.ReadResourceResult, error) {
	s.reads = append(s.reads, uri)
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: uri, Text: s.files[uri]}}}, nil
}

func (s *source) Server() client.ServerDetails {
	var d client.ServerDetails
	if s.settings != "" {
		d.Capabilities.Extensions = map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(s.settings)}
	}
	return d
}

const (
	oneURI  = "skill://one/SKILL.md"
	oneText = "---\nname: one\ndescription: d\ncount: 1\n---\n"
)

// oneEntry returns the entry of the skill with the text oneText, with old replaced by new.
func oneEntry(old, new string) string {
	const entry = `{"uri":"skill://one/SKILL.md","frontmatter":{"name":"one","description":"d","count":1},` +
		`"resources":[` +
		`{"uri":"skill://one/SKILL.md","size":42,` +
		`"digest":"sha256:2c0e4bb1d4a9ba9a0a3fa6c9b1d4d7a0ad8b5a1ff1a1d4b2b1bd6a4f1d6a0c11"}]}`
	return strings.Replace(entry, old, new, 1)
}

// Skill Entries: an invalid entry is an error, and the others are used.
func TestInvalidEntriesAreErrors(t *testing.T) {
	for want, entry := range map[string]string{
		"resources must be a list": oneEntry(`"resources"`, `"other"`),
		"not null": `{"uri":"skill://one/SKILL.md","frontmatter":{"name":"one","description":"d"},` +
			`"resources":null}`,
		"frontmatter must be":      oneEntry(`{"name":"one","description":"d","count":1}`, `[]`),
		"must have a description":  oneEntry(`"description":"d",`, ``),
		"lowercase letters":        oneEntry(`"name":"one"`, `"name":"One"`),
		"must be the name":         oneEntry(`"name":"one"`, `"name":"two"`),
		"must end with":            oneEntry(`one/SKILL.md"`, `one/skill.md"`),
		"query":                    oneEntry(`skill://one/SKILL.md"`, `skill://one?x/SKILL.md"`),
		"64 lowercase hexadecimal": oneEntry(`sha256:2c`, `sha256:2C`),
		"must not be negative":     oneEntry(`"size":42`, `"size":-1`),
		"must have SKILL.md":       oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://one/OTHER.md"`),
		"in the directory":         oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://two/SKILL.md"`),
		"one/../two":               oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://one/../two/x"`),
		"one/%2e%2e/two":           oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://one/%2e%2e/two"`),
	} {
		from := &source{settings: "{}", list: `{"skills":[` + entry + `,` + oneEntry("", "") + `]}`}
		var errs []error
		n := 0
		for _, err := range skills.List(t.Context(), from) {
			if err != nil {
				errs = append(errs, err)
			} else {
				n++
			}
		}
		must.CheckThat(t, len(errs) == 1 && n == 1 && strings.Contains(errs[0].Error(), want),
			"%s: %v, and %d skills", want, errs, n)
	}
}

// one returns the skill with this frontmatter and a list of files that is made from text.
func one(t *testing.T, frontmatter, text string) *skills.Skill {
	t.Helper()
	s := &skills.Skill{URI: oneURI, Name: "one", Description: "d", Frontmatter: json.RawMessage(frontmatter)}
	s.Files = []skills.File{{URI: oneURI, Digest: skills.DigestOf([]byte(text)), Size: int64(len(text))}}
	return s
}

// Integrity and Verification: a file with another size, digest or frontmatter is not returned, and one that the entry
// does not list is not requested. Lazy Retrieval: List and Get read no file.
func TestFilesAreVerified(t *testing.T) {
	const frontmatter = `{"name":"one","description":"d","count":1.0}`
	good := one(t, frontmatter, oneText)
	from := &source{settings: "{}", files: map[string]string{oneURI: oneText}}
	contents := must.Get(skills.Read(t.Context(), from, good, oneURI))(t)
	must.Equal(t, string(contents), oneText, contents)
	longer, other := one(t, frontmatter, oneText+"x"), one(t, frontmatter, oneText)
	other.Files[0].Digest = skills.DigestOf(nil)
	generated := &skills.Skill{URI: oneURI,
		Frontmatter: json.RawMessage(`{"name":"one","description":"other","count":1}`)}
	for want, s := range map[string]*skills.Skill{
		"the entry says 43":                                     longer,
		"its digest is not":                                     other,
		`the field "count" of its frontmatter differs`:          one(t, `{"name":"one","description":"d","count":2}`, oneText),
		`its frontmatter contains the additional field "count"`: one(t, `{"name":"one","description":"d"}`, oneText),
		`the field "extra" of its`: one(t,
			`{"name":"one","description":"d","count":1,"extra":null}`, oneText),
		`the field "description" of its`: generated,
	} {
		expectUnverified(t, from, s, oneURI, want)
	}
	reads := len(from.reads)
	expectUnverified(t, from, good, "skill://one/added.md", "does not list it")
	expectUnverified(t, from, generated, "skill://two/SKILL.md", "not in the directory")
	expectUnverified(t, from, generated, "skill://one/%2E%2e/two/SKILL.md", "not in the directory")
	if len(from.reads) != reads {
		t.Errorf("%q were requested", from.reads[reads:])
	}
}

func expectUnverified(t *testing.T, from skills.Source, s *skills.Skill, uri, want string) {
	t.Helper()
	_, err := skills.Read(t.Context(), from, s, uri)
	var e *skills.VerificationError
	must.CheckThat(t, errors.As(err, &e) && strings.Contains(err.Error(), want), "%s: %v", want, err)
}

// Capability Negotiation: no method is called that the server does not declare.
func TestMethodsAreCalledIfTheServerDeclaresThem(t *testing.T) {
	none, plain := &source{}, &source{settings: "{}"}
	for _, err := range skills.List(t.Context(), none) {
		must.CheckIs(t, err, skills.ErrUnsupported)
	}
	_, err := skills.Get(t.Context(), none, oneURI)
	_, err2 := skills.ReadDirectory(t.Context(), plain, "skill://one")
	if !errors.Is(err, skills.ErrUnsupported) || !errors.Is(err2, skills.ErrUnsupported) || none.lists+plain.lists > 0 {
		t.Errorf("%v, %v, %d calls", err, err2, none.lists+plain.lists)
	}
}

func TestListsEnd(t *testing.T) {
	from := &source{settings: "{}", list: `{"skills":[],"nextCursor":"x"}`}
	for _, err := range skills.List(t.Context(), from) {
		must.CheckFails(t, err, "does not end")
	}
	must.CheckEqual(t, from.lists, 2)
}

// If a file system could read a path differently from the URI, the file has no path.
func TestPathsAreSafeOnEverySystem(t *testing.T) {
	s := &skills.Skill{URI: oneURI}
	must.CheckEqual(t, must.Get(s.Path("skill://one/a/b%20c.md"))(t), "a/b c.md")
	for _, rest := range []string{"", "../x", "%2e%2e/x", "a%2fb", "a/./b", "a//b", "c:x", "a%5cb", "CON", "aux.md",
		"lpt1 .txt",
		"COM%C2%B9", "x.", "x%20", "a%00", "a%0a", "a:b", "a%7Cb", "/etc"} {
		p, err := s.Path("skill://one/" + rest)
		must.CheckThat(t, err != nil, "%s: %q", rest, p)
	}
}
