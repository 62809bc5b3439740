package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// withSkills returns a server with the skills of these names, each with a file and a directory.
func withSkills(t testing.TB, of string, names ...string) *server.Server {
	t.Helper()
	s := &server.Server{Name: of}
	fsys := fstest.MapFS{}
	for _, name := range names {
		fsys[name+"/SKILL.md"] = &fstest.MapFile{
			Data: []byte("---\nname: " + name + "\ndescription: " + name + " of " + of + "\n---\n")}
		fsys[name+"/files/a.md"] = &fstest.MapFile{Data: []byte("a of " + of)}
	}
	if _, err := skills.Add(s, fsys, skills.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// skillsOf lists the skills, reads all of their files, and returns their URIs and descriptions.
func skillsOf(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	for s, err := range skills.List(t.Context(), c) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.URI+": "+s.Description)
		for _, f := range s.Files {
			if _, err := skills.Read(t.Context(), c, s, f.URI); err != nil {
				t.Errorf("%s: %v", f.URI, err)
			}
		}
		same, err := skills.Get(t.Context(), c, s.URI)
		if err != nil || same.Digest() != s.Digest() || same.Description != s.Description {
			t.Errorf("%s: %+v, %v", s.URI, same, err)
		}
		in, err := skills.ReadDirectory(t.Context(), c, s.Root()+"/files")
		if err != nil || len(in) != 1 || in[0].URI != s.Root()+"/files/a.md" {
			t.Errorf("%s: %+v, %v", s.Root(), in, err)
		}
	}
	return all
}

// The skills of one server have their URIs. Those of several servers, which have templates for all skills, have the
// server as prefix, so that skills with one URI are two.
func TestSkillsOfServersStayApart(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		one := inMemory(t, "first", withSkills(t, "one", "pdf", "refunds"))
		c := mcptest.Dial(t, gatewayTo(t, one), mcptest.WithRevision(r))
		want := []string{"skill://pdf/SKILL.md: pdf of one", "skill://refunds/SKILL.md: refunds of one"}
		if got := skillsOf(t, c); !slices.Equal(got, want) {
			t.Errorf("%s: of one server: %q", r, got)
		}
		one = inMemory(t, "first", withSkills(t, "one", "pdf", "refunds"))
		one.Revision = r
		s := gatewayTo(t, inMemory(t, "second", withSkills(t, "two", "refunds")), one,
			inMemory(t, "third", answering("x")))
		want = []string{"server:first/skill://pdf/SKILL.md: pdf of one",
			"server:first/skill://refunds/SKILL.md: refunds of one",
			"server:second/skill://refunds/SKILL.md: refunds of two"}
		if got := skillsOf(t, mcptest.Dial(t, s)); !slices.Equal(got, want) {
			t.Errorf("%s: of two servers: %q", r, got)
		}
	}
}

func TestManySkillsHavePages(t *testing.T) {
	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprintf("skill-%d", i))
	}
	c := mcptest.Dial(t, gatewayTo(t, inMemory(t, "first", withSkills(t, "one", names...)),
		inMemory(t, "second", withSkills(t, "two", names...))))
	n := 0
	for _, err := range skills.List(t.Context(), c) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1000 {
		t.Errorf("%d skills", n)
	}
}

// A gateway declares the extension while one of its servers does.
func TestGatewaysWithoutSkillsDoNotDeclareThem(t *testing.T) {
	s := gatewayTo(t, inMemory(t, "first", answering("x")))
	if _, declared := mcptest.Dial(t, s).Server().Extension(mcp.ExtensionSkills); declared {
		t.Error("declared")
	}
}

// A skill whose SKILL.md the policy denies to a caller is neither listed nor read, and a denied file is in no list.
func TestPolicyHidesSkills(t *testing.T) {
	u := newUsers(t, "ada", "bob")
	up := httptest.NewServer(withSkills(t, "one", "pdf", "refunds", "salaries"))
	t.Cleanup(up.Close)
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: client.URL(up.URL)}},
		Policy: host.Rules{Default: host.Allow, Rules: []host.Rule{
			{When: isAda, Fixed: true, Action: host.Allow},
			{Resource: "skill://salaries/*", Action: host.Deny},
			{Resource: "skill://refunds/files/*", Action: host.Deny},
		}},
	}
	gatewaytest.Run(t, h, u.server, func(*gateway.Gateway) {})
	u.front.Start()
	t.Cleanup(u.front.Close)
	t.Cleanup(func() { u.server.Shutdown(context.Background()) })
	dial := func(name string) *client.Client {
		d := client.Dialer{Logger: quiet, Auth: u.logins[name]}
		c, err := d.Dial(t.Context(), client.URL(u.url()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ada, bob := dial("ada"), dial("bob")
	if got := skillsOf(t, ada); len(got) != 3 {
		t.Errorf("Ada has %q", got)
	}
	var of []string
	for s, err := range skills.List(t.Context(), bob) {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range s.Files {
			of = append(of, strings.TrimPrefix(f.URI, "skill://"))
		}
	}
	if want := []string{"pdf/SKILL.md", "pdf/files/a.md", "refunds/SKILL.md"}; !slices.Equal(of, want) {
		t.Errorf("Bob has %q", of)
	}
	if _, err := skills.Get(t.Context(), bob, "skill://salaries/SKILL.md"); err == nil {
		t.Error("Bob gets a skill that is denied")
	}
	if in, err := skills.ReadDirectory(t.Context(), bob, "skill://refunds/files"); err != nil || len(in) != 0 {
		t.Errorf("Bob: %+v, %v", in, err)
	}
	for _, uri := range []string{"skill://salaries/SKILL.md", "skill://salaries/files/a.md",
		"skill://refunds/files/a.md"} {
		if _, err := bob.ReadResource(t.Context(), uri); err == nil {
			t.Errorf("Bob reads %s", uri)
		}
	}
}

// A skill that Review does not accept is not listed, and recorded once. Review sees the digests of all files.
func TestReviewWithholdsSkills(t *testing.T) {
	s := &server.Server{Name: "gateway", Version: "1"}
	audit := recorded{make(chan string, 100)}
	h := &host.Host{Servers: []host.ServerConfig{inMemory(t, "up", withSkills(t, "one", "pdf", "refunds"))},
		Audit: audit}
	h.Review = func(d host.Definition) error {
		if d.Kind != "skill" {
			return nil
		}
		if n := strings.Count(string(d.JSON), `"digest":"sha256:`); n != 2 || d.Server != "up" {
			t.Errorf("%+v: %d digests", d, n)
		}
		if d.Name == "skill://pdf/SKILL.md" {
			return errors.New("not accepted")
		}
		return nil
	}
	gatewaytest.Run(t, h, s)
	c := mcptest.Dial(t, s)
	if got := skillsOf(t, c); !slices.Equal(got, []string{"skill://refunds/SKILL.md: refunds of one"}) {
		t.Errorf("%q", got)
	}
	if _, err := skills.Get(t.Context(), c, "skill://pdf/SKILL.md"); err == nil {
		t.Error("a withheld skill is returned")
	}
	close(audit.all)
	n := 0
	for record := range audit.all {
		if record == "withheld skill://pdf/SKILL.md" {
			n++
		}
	}
	must.CheckEqual(t, n, 1)
}
