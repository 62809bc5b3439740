package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func ptr[T any](v T) *T { return &v }

var icons = []mcp.Icon{{Src: "https://example.com/icon.png", MimeType: "image/png", Sizes: []string{"48x48"}}}

type issue struct {
	Repo   string   `json:"repo" doc:"the repository" enum:"parley,other"`
	Number int      `json:"number" minimum:"1"`
	Open   *bool    `json:"open"`
	Labels []string `json:"labels,omitzero"`
}

// newLibrary returns a server with one resource for each kind of behaviour.
func newLibrary(t *testing.T) func() *server.Server {
	files := library(t)
	return func() *server.Server {
		s := &server.Server{Name: "library", Version: "1.0.0", Logger: slog.New(slog.DiscardHandler)}
		server.AddStatic(s, mcp.Resource{
			URI: "note://welcome", Name: "welcome", Title: "Welcome", Description: "A greeting.",
			MimeType: "text/plain", Icons: icons,
			Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: ptr(0.5),
				LastModified: "2026-01-02T03:04:05Z"},
			Meta: mcp.Meta{"com.example/row": json.RawMessage(`3`)},
		}, "Welcome!\n")
		server.AddStatic(s, mcp.Resource{URI: "note://pixel", Name: "pixel", MimeType: "image/png"},
			[]byte{0x89, 'P', 'N', 'G', 0, 0xFF})
		server.AddStatic(s, mcp.Resource{URI: "note://nothing", Name: "nothing"}, []byte(nil))
		server.AddResource(s, mcp.Resource{URI: "note://weather", Name: "weather"},
			func(context.Context) (weather, error) { return weather{"Oslo", -3.5}, nil })
		server.AddResource(s, mcp.Resource{URI: "note://parts", Name: "parts", MimeType: "text/plain"},
			func(context.Context) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{
					{Text: "whole", Meta: mcp.Meta{"com.example/part": json.RawMessage(`1`)}},
					{URI: "note://parts/2", MimeType: "application/octet-stream", Blob: []byte{1}},
				}, nil
			})
		server.AddResource(s, mcp.Resource{URI: "note://cached", Name: "cached"},
			func(context.Context) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{
					CacheHints: mcp.CacheHints{TTLMs: ptr(int64(60_000)), CacheScope: mcp.CacheScopePublic},
					Contents:   []mcp.ResourceContents{{Text: "not \xff UTF-8"}},
				}, nil
			})
		server.AddResource(s, mcp.Resource{URI: "note://gone", Name: "gone"}, func(context.Context) (string, error) {
			return "", fmt.Errorf("deleted: %w", call.ErrResourceNotFound)
		})
		server.AddResource(s, mcp.Resource{URI: "note://empty", Name: "empty"},
			func(context.Context) ([]mcp.ResourceContents, error) { return nil, nil })
		server.AddResource(s, mcp.Resource{URI: "note://broken", Name: "broken"},
			func(context.Context) (string, error) { return "", errors.New("secret") })
		server.AddResource(s, mcp.Resource{URI: "note://panic", Name: "panic"},
			func(context.Context) (string, error) { panic("secret") })
		server.AddResource(s, mcp.Resource{URI: "note://rejected", Name: "rejected"},
			func(context.Context) (string, error) {
				return "", jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "not now")
			})
		server.AddTemplate(s, mcp.ResourceTemplate{
			URITemplate: "issue://{repo}/{number}{?open,labels*}", Name: "issue", Title: "Issue",
			Description: "One issue.", Icons: icons,
			Annotations: &mcp.Annotations{LastModified: "2026-01-02T03:04:05Z"},
			Meta:        mcp.Meta{"com.example/row": json.RawMessage(`4`)},
		}, func(_ context.Context, in issue) (string, error) {
			open := "?"
			if in.Open != nil {
				open = fmt.Sprint(*in.Open)
			}
			return fmt.Sprintf("%s#%d %s %q", in.Repo, in.Number, open, in.Labels), nil
		})
		server.AddFS(s, "file:///library", files, server.FSOptions{Description: "The library.", MaxFile: 100})
		return s
	}
}

// library returns a directory with symbolic links to files inside and outside of it.
func library(t *testing.T) *os.Root {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("secret"), 0o600))
	inside := filepath.Join(dir, "inside")
	must.Do(t, os.MkdirAll(filepath.Join(inside, "a", "deep"), 0o700))
	must.Do(t, os.MkdirAll(filepath.Join(inside, ".git"), 0o700))
	for name, data := range map[string]string{
		"README.md": "# Read me\n", "a/b c.txt": "spaces", "a/deep/é.json": "{}", "a-b.txt": "sorts before a/",
		"pixel.png": "\x89PNG\x00",
		"large.txt": strings.Repeat("x", 101), "empty": "", ".env": "secret", ".git/config": "secret",
	} {
		must.Do(t, os.WriteFile(filepath.Join(inside, filepath.FromSlash(name)), []byte(data), 0o600))
	}
	must.Do(t, os.Symlink(filepath.Join("..", "secret.txt"), filepath.Join(inside, "out.txt")))
	must.Do(t, os.Symlink("README.md", filepath.Join(inside, "link.md")))
	must.Do(t, os.Symlink("..", filepath.Join(inside, "up")))
	root := must.Get(os.OpenRoot(inside))(t)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// all returns the elements of an iterator.
func all[E any](t *testing.T, seq iter.Seq2[*E, error]) []E {
	t.Helper()
	var elements []E
	for e, err := range seq {
		must.Do(t, err)
		elements = append(elements, *e)
	}
	return elements
}

func TestResourcesAreDeclared(t *testing.T) {
	everywhere(t, newLibrary(t), func(t *testing.T, c *client.Client) {
		declared := c.Server().Capabilities
		must.CheckThat(t, declared.Resources != nil && declared.Tools == nil && declared.Prompts == nil,
			"declared: %+v", declared)
		must.CheckEqual(t, declared.Completions != nil, c.Revision() >= mcp.V20250326, "completions are declared")
	})
}

func TestListResourcesAndFiles(t *testing.T) {
	newServer := newLibrary(t)
	paged := func() *server.Server {
		s := newServer()
		s.Limits.PageSize = 4
		return s
	}
	everywhere(t, paged, func(t *testing.T, c *client.Client) {
		listed := all(t, c.Resources(t.Context()))
		var uris []string
		for _, r := range listed {
			uris = append(uris, r.URI)
		}
		want := []string{
			"file:///library/README.md", "file:///library/a-b.txt", "file:///library/a/b%20c.txt",
			"file:///library/a/deep/%C3%A9.json",
			"file:///library/empty", "file:///library/large.txt", "file:///library/link.md",
			"file:///library/pixel.png",
			"note://broken", "note://cached", "note://empty", "note://gone", "note://nothing", "note://panic",
			"note://parts", "note://pixel",
			"note://rejected", "note://weather", "note://welcome",
		}
		if !slices.Equal(uris, want) {
			t.Fatalf("resources:\n%s\nwant:\n%s", strings.Join(uris, "\n"), strings.Join(want, "\n"))
		}
		readme, welcome := listed[0], listed[len(listed)-1]
		must.CheckThat(t, readme.Name == "README.md" && readme.MimeType == "text/markdown" && *readme.Size == 10,
			"file: %+v", readme)
		must.CheckThat(t, *welcome.Size == 9 && welcome.Description == "A greeting." &&
			*welcome.Annotations.Priority == 0.5, "resource: %+v", welcome)
		r := c.Revision()
		must.CheckThat(t, (welcome.Title != "") == (r >= mcp.V20250618) &&
			(welcome.Meta != nil) == (r >= mcp.V20250618) &&
			(welcome.Annotations.LastModified != "") == (r >= mcp.V20250618) &&
			(welcome.Icons != nil) == (r >= mcp.V20251125), "%s: %+v", r, welcome)
	})
}

func TestListTemplates(t *testing.T) {
	everywhere(t, newLibrary(t), func(t *testing.T, c *client.Client) {
		listed := all(t, c.ResourceTemplates(t.Context()))
		must.That(t, len(listed) == 2 && listed[0].URITemplate == "file:///library/{+path}" &&
			listed[0].Name == "library" && listed[1].Name == "issue", "templates: %+v", listed)
		r := c.Revision()
		issue := listed[1]
		must.CheckThat(t, (issue.Title != "") == (r >= mcp.V20250618) && (issue.Meta != nil) == (r >= mcp.V20250618) &&
			(issue.Icons != nil) == (r >= mcp.V20251125), "%s: %+v", r, issue)
	})
}

func TestReadResources(t *testing.T) {
	everywhere(t, newLibrary(t), func(t *testing.T, c *client.Client) {
		for uri, want := range map[string]mcp.ResourceContents{
			"note://welcome": {MimeType: "text/plain", Text: "Welcome!\n"},
			"note://pixel": {MimeType: "image/png",
				Blob: []byte{0x89, 'P', 'N', 'G', 0, 0xFF}},
			"note://nothing": {Blob: []byte{}},
			"note://weather": {MimeType: "application/json",
				Text: `{"city":"Oslo","degrees":-3.5}`},
			"note://cached":                         {Text: "not \uFFFD UTF-8"},
			"issue://parley/7":                      {Text: `parley#7 ? []`},
			"issue://parley/7?open=true":            {Text: `parley#7 true []`},
			"issue://other/8?labels=a%2Fb&labels=c": {Text: `other#8 ? ["a/b" "c"]`},
			"issue://other/8?labels=a&open=false":   {Text: `other#8 false ["a"]`},
			"file:///library/README.md":             {MimeType: "text/markdown", Text: "# Read me\n"},
			"file:///library/link.md":               {MimeType: "text/markdown", Text: "# Read me\n"},
			"file:///library/a/b%20c.txt":           {MimeType: "text/plain", Text: "spaces"},
			"file:///library/a/deep/%c3%a9.json":    {MimeType: "application/json", Text: "{}"},
			"file:///library/empty":                 {MimeType: "text/plain"},
			"file:///library/pixel.png":             {MimeType: "image/png", Blob: []byte("\x89PNG\x00")},
		} {
			want.URI = uri
			result, err := c.ReadResource(t.Context(), uri)
			if err != nil || len(result.Contents) != 1 {
				t.Errorf("%s: %+v, %v", uri, result, err)
				continue
			}
			got := result.Contents[0]
			must.CheckEqual(t, fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want), uri, got, want)
			ttl, scope := int64(0), mcp.CacheScopePrivate
			if uri == "note://cached" {
				ttl, scope = 60_000, mcp.CacheScopePublic
			}
			if c.Revision().Modern() {
				must.CheckThat(t, result.TTLMs != nil && *result.TTLMs == ttl && result.CacheScope == scope,
					"%s: cache hints %+v", uri, result.CacheHints)
			} else if result.CacheHints != (mcp.CacheHints{}) {
				t.Errorf("%s: cache hints %+v in %s", uri, result.CacheHints, c.Revision())
			}
		}
		parts, err := c.ReadResource(t.Context(), "note://parts")
		if err != nil || len(parts.Contents) != 2 || parts.Contents[0].URI != "note://parts" ||
			parts.Contents[0].MimeType != "text/plain" ||
			parts.Contents[1].URI != "note://parts/2" || string(parts.Contents[1].Blob) != "\x01" {
			t.Errorf("parts: %+v, %v", parts, err)
		} else if (parts.Contents[0].Meta != nil) != (c.Revision() >= mcp.V20250618) {
			t.Errorf("parts: _meta %v in %s", parts.Contents[0].Meta, c.Revision())
		}
	})
}

// Rule Y2: reading a resource that does not exist or must not be read returns an error with the
// URI and the code of the revision, and not an empty result.
func TestMissingResourceIsNotFound(t *testing.T) {
	everywhere(t, newLibrary(t), func(t *testing.T, c *client.Client) {
		for _, uri := range []string{
			"note://missing", "note://gone", "note://empty", "note://welcome/", "NOTE://welcome",
			"issue://parley/seven", "issue://parley/0", "issue://unknown/7", "issue://parley/",
			"issue://parley/7?open=maybe", "issue://parley/7?other=1",
			"issue://parley/99999999999999999999",
			"file:///library/", "file:///library/a", "file:///library/a/", "file:///library/missing",
			"file:///library/out.txt", "file:///library/up/secret.txt", "file:///library/../secret.txt",
			"file:///library/%2e%2e/secret.txt",
			"file:///library/..%2Fsecret.txt", "file:///library/a/../README.md", "file:///library//README.md",
			"file:///library/.env",
			"file:///library/.git/config", "file:///library/README.md%00", "file:///library/README.md?x",
			"file:///library/C:%5Csecret.txt",
		} {
			result, err := c.ReadResource(t.Context(), uri)
			var reported *jsonrpc.Error
			if !errors.Is(err, call.ErrResourceNotFound) || !errors.As(err, &reported) {
				t.Errorf("%q: %+v, %v", uri, result, err)
				continue
			}
			code := mcp.CodeResourceNotFound
			if c.Revision().Modern() {
				code = jsonrpc.CodeInvalidParams
			}
			var data mcp.ResourceNotFoundData
			if err := json.Unmarshal(reported.Data, &data); err != nil || reported.Code != code || data.URI != uri {
				t.Errorf("%q: %d with %s", uri, reported.Code, reported.Data)
			}
		}
	})
}

func TestErrorsOfResourcesHaveCodeAndText(t *testing.T) {
	everywhere(t, newLibrary(t), func(t *testing.T, c *client.Client) {
		for uri, want := range map[string]jsonrpc.Error{
			"note://broken":   {Code: jsonrpc.CodeInternalError, Message: "internal error"},
			"note://panic":    {Code: jsonrpc.CodeInternalError, Message: "internal error"},
			"note://rejected": {Code: jsonrpc.CodeInvalidRequest, Message: "not now"},
			"file:///library/large.txt": {Code: jsonrpc.CodeInternalError,
				Message: "the file has 101 bytes, the limit is 100"},
			"x:" + strings.Repeat("a", 8<<10): {Code: jsonrpc.CodeInvalidParams,
				Message: "params.uri has 8194 bytes, the limit is 8192"},
		} {
			_, err := c.ReadResource(t.Context(), uri)
			must.CheckThat(t, errors.Is(err, &want) && !errors.Is(err, call.ErrResourceNotFound), "%.40s: %v", uri, err)
		}
	})
}

func TestLargeBlobIsReadCompletely(t *testing.T) {
	data := make([]byte, 100_000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	large := func() *server.Server {
		s := &server.Server{}
		server.AddStatic(s, mcp.Resource{URI: "note://large", Name: "large"}, data)
		return s
	}
	everywhere(t, large, func(t *testing.T, c *client.Client) {
		must.CheckEqual(t, string(must.Get(c.ReadResource(t.Context(), "note://large"))(t).Contents[0].Blob),
			string(data))
	})
}

// The resource has cache hints, which exist in 2026-07-28 only. Clients of older revisions read it each time.
func TestClientCachesFreshResourceUntilItChanges(t *testing.T) {
	var s *server.Server
	var reads atomic.Int32
	fresh := func() *server.Server {
		reads.Store(0)
		s = newServer()
		server.AddResource(s, mcp.Resource{URI: "note://a", Name: "a"},
			func(context.Context) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{
					CacheHints: mcp.CacheHints{TTLMs: ptr(int64(3_600_000)), CacheScope: mcp.CacheScopePrivate},
					Contents:   []mcp.ResourceContents{{URI: "note://a", Text: fmt.Sprint(reads.Add(1))}},
				}, nil
			})
		return s
	}
	everywhere(t, fresh, func(t *testing.T, c *client.Client) {
		last := int32(0)
		read := func(want int32, options ...client.CallOption) {
			t.Helper()
			if !c.Revision().Modern() {
				want = last + 1
			}
			last = want
			result, err := c.ReadResource(t.Context(), "note://a", options...)
			must.CheckThat(t, err == nil && result.Contents[0].Text == fmt.Sprint(want),
				"%+v, %v; want %d", result, err, want)
		}
		read(1)
		read(1)
		read(2, client.WithRefresh())
		read(2)
		// The resource may have changed between the read and the start of the subscription.
		w := watch(t, c, client.WatchFilter{URIs: []string{"note://a"}})
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a", Resync: true})
		read(3)
		read(3)
		s.ResourceUpdated("note://a")
		w.until(client.Change{Kind: client.ResourceUpdated, URI: "note://a"})
		read(4)
		read(4)
	})
}
