package resourceuri_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/resourceuri"
)

// escapes lists ways out of a directory that servers follow.
var escapes = []string{
	"..", "../etc/passwd", "a/../../etc/passwd", "%2e%2e/etc/passwd", "%2E./etc/passwd", ".%2e/etc/passwd",
	"..%2fetc/passwd", "..%2Fetc", "..%5cetc",
	`..\etc`, `a\..\..\etc`, "%252e%252e/etc", "%252e%252e%252fetc", "%25252e%25252e/etc", "..;/etc", "..;x=1/etc",
	"..?x", "..#x", "?path=../etc", "?path=..%2fetc",
	"./x", "%2e/x", "..%00/etc", "a%0a", "..%20/etc", "%2525252525252e",
}

func TestGrantedPrefixHasNoWayOut(t *testing.T) {
	for _, escape := range escapes {
		for _, base := range []string{"file:///public/", "https://example.com/public/", "note:public/"} {
			uri := base + escape
			must.CheckThat(t, !resourceuri.Grants(base+"*", uri), "%s* grants access to %s", base, uri)
			within, err := resourceuri.Within(base+escape, base)
			must.CheckThat(t, err != nil || !within, "%s is within %s", base+escape, base)
		}
	}
}

func TestPatternsGrantAccessToNormalURIs(t *testing.T) {
	for _, c := range []struct {
		pattern, uri string
		want         bool
	}{
		{"file:///public/*", "file:///public/a", true},
		{"file:///public/*", "file:///public/a..b/.hidden/...", true},
		{"file:///public/*", "FILE:///%70ublic/a%2fb", true},
		{"file:///public/*", "file:///public/straße", true},
		{"file:///public/*", "file:///public/{path}", true}, // a template
		{"note://*", "note://{id}{?q}", true},
		{"HTTPS://Example.COM/%61*", "https://example.com/abc", true},
		{"https://example.com/*", "https://user@EXAMPLE.com/", false},
		{"https://example.com/*", `https://example.com\@evil.example/`, false},
		{"file:///public/*", "file:///private/a", false},
		{"file:///public/*", "file:///public", false},
		{"file:///public/*", "file://public/a", false},
		// URIs that are not valid
		{"file:///public/*", "file:///public/a b", false},
		{"file:///public/*", "file:///public/%zz", false},
		{"file:///public/*", "file:///public/<a>", false},
		{"public/*", "public/a", false},
		{"*odd", "an odd", false},
		{"an odd", "an odd", true},
		{"a?b *", "a?b *", true},
		{"file:///a/../b", "file:///a/../b", true},
		{"*", "an odd", true},
		{"**", "file:///a/../b", true},
		{"", "", true},
		{"", "a", false},
	} {
		must.CheckEqual(t, resourceuri.Grants(c.pattern, c.uri), c.want, c.pattern, c.uri)
	}
}

func TestPatternsRestrictEveryFormOfAURI(t *testing.T) {
	for _, uri := range []string{
		"file:///secret/a", "FILE:///secret/a", "file:/secret/a", "file://localhost/secret/a",
		"file://LOCALHOST/secret/a", "file:////secret//a", "file:///%73ecret/a",
		"file:///%2573ecret/a", "file:///public/../secret/a", "file:///public/%2e%2e/secret/a",
		"file:///public/..%2fsecret/a", `file:///public\..\secret\a`,
		"file:///public/..;x/secret/a", "file:///secret%2fa", "file:///secret/%zz", "file:///secret/a b",
		"file:///./secret/a", "file:///secret/../secret/a?x",
		"file://127.0.0.1/secret/a", "file://[::1]/secret/a", "file://user@/secret/a", "file://user:pw@localhost/secret/a",
		"file://:80/secret/a", "file://localhost:80/secret/a", "file://localhost./secret/a", "file://other/secret/a",
		"file://%6cocalhost/secret/a", "file://a%2fb@c/secret/a", "file:secret/a", "file://secret/a", `file:\\\secret/a`,
		`file:/\127.0.0.1\secret\a`, " file:///secret/a", "fi\tle:///secret/a", "file:///secret/a ", "/secret/a",
		"file:///x%2f..%2fsecret/a", "file%3a///secret/a",
	} {
		for _, pattern := range []string{"file:///secret/*", "file:/secret/*", "FILE:///%73ecret/*",
			"file://localhost/secret/*", "file://127.0.0.1/secret/*", "file://user@localhost:80/secret/*"} {
			must.CheckThat(t, resourceuri.Restricts(pattern, uri), "%s does not restrict %s", pattern, uri)
		}
	}
	for pattern, uri := range map[string]string{
		"file:///C:/secret/*": "file://c:/secret/a", "file:///c|/secret/*": "file:/C:/secret/a",
		"file://nas/secret/*": "file:////nas/secret/a", "file://nas/share/*": `file:\\nas\share\a`,
		"https://example.com/secret/*": "https://user@EXAMPLE.com.:443/secret/a",
		"http://example.com:80/*":      "http://example.com:/a",
		"an odd*":                      "an odd uri", "*": "x", "https://example.com/A*": "https://EXAMPLE.com/A", "urn:a:?": "urn:a:b",
		"x:secret": "x:secret", "note://{id}": "note://{id}", "file:///a/*": "file:///a/../b",
	} {
		must.CheckThat(t, resourceuri.Restricts(pattern, uri), "%s does not restrict %s", pattern, uri)
	}
	for pattern, uri := range map[string]string{
		"file:///secret/*": "file:///secrets/a", "file://nas/secret/*": "file:///secret/a",
		"https://example.com/*": "https://example.com:8443/a", "note://a/*": "note://b/a",
	} {
		must.CheckThat(t, !resourceuri.Restricts(pattern, uri), "%s restricts %s", pattern, uri)
	}
}

func TestWithinComparesPathsOfURIs(t *testing.T) {
	for _, c := range []struct{ uri, directory, want string }{
		{"file:///public/a", "file:///public", "yes"},
		{"file:///public/a", "file:///public/", "yes"},
		{"file:///public", "file:///public", "yes"},
		{"FILE://localhost/%70ublic/a?x=1#y", "file:/public", "yes"},
		{"https://Example.com/a/b", "https://example.com/a", "yes"},
		{"file:///publican/a", "file:///public", "no"},
		{"file://public/a", "file:///public", "error"},
		{"file://other/public/a", "file:///public", "error"},
		{"file://127.0.0.1/public/a", "file:///public", "error"},
		{"file://user@/public/a", "file:///public", "error"},
		{"file:public/a", "file:///public", "error"},
		{"file://other/private/a", "file:///public", "no"},
		{"file:///public/a", "file://other/public", "no"},
		{"file://other/public/a", "file://other/public", "yes"},
		{"https://user@example.com:443/a/b", "https://example.com/a", "error"},
		{"http://example.com/a/b", "https://example.com/a", "no"},
		{"https://example.com.evil.example/a/b", "https://example.com/a", "no"},
		{"https://example.com:8080/a/b", "https://example.com/a", "no"},
		{"file:///public/a%2fb", "file:///public", "error"},
		{"file:///public/%2570", "file:///public", "error"},
		{"file:///public/a b", "file:///public", "error"},
		{"public/a", "file:///public", "error"},
		{"file:///public/a", "file:///x/../public", "error"},
	} {
		within, err := resourceuri.Within(c.uri, c.directory)
		got := map[bool]string{true: "yes", false: "no"}[within]
		if err != nil {
			got = "error"
		}
		must.CheckEqual(t, got, c.want, c.uri, c.directory, err)
	}
}

func TestTemplatesAreExpandedWithoutEncoding(t *testing.T) {
	values := map[string]string{"a": "../x", "b": "2"}
	for template, want := range map[string]string{
		"f:///{a}/{b}": "f:///../x/2", "f://{+a}{/b,c}{?a,b}{&b*}{#a:3}": "f://../x/2/?a=../x&b=2&b=2#../x",
		"f://{a,b}{;a}{.b}": "f://../x,2;a=../x.2", "f://{": "f://{",
	} {
		must.CheckEqual(t, resourceuri.Expand(template, values), want, template)
	}
}

// If a pattern grants a URI, the same pattern also restricts it, and the URI contains no dot
// segments.
func FuzzGrantedURIsAreRestrictedToo(f *testing.F) {
	for _, escape := range escapes {
		f.Add("file:///public/*", "file:///public/"+escape)
	}
	f.Add("note://{id}", "note://{id}")
	f.Fuzz(func(t *testing.T, pattern, uri string) {
		if len(pattern) > 100 || len(uri) > 100 || pattern == uri || strings.Trim(pattern, "*") == "" {
			return
		}
		must.CheckThat(t, !resourceuri.Grants(pattern, uri) || resourceuri.Restricts(pattern, uri) &&
			!resourceuri.HasDots(uri), "%q grants access to %q", pattern, uri)
	})
}
