// Package registry reads the descriptions of servers in an MCP registry (the registry API, version v0.1), and makes
// configuration entries from them.
package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/schema"
)

// DefaultURL is the address of the official registry.
const DefaultURL = "https://registry.modelcontextprotocol.io"

const (
	maxBody  = 16 << 20 // bytes of a response
	pageSize = 50
	timeout  = 30 * time.Second
)

// ErrNotFound is the error if the registry has no such server or version.
var ErrNotFound = errors.New("not found")

// Client reads from a registry.
type Client struct {
	URL  string       // of the registry, without the version of the API
	HTTP *http.Client // nil means http.DefaultClient
	// UserAgent is the header field of each request.
	UserAgent string
}

// Entry is a server of the registry.
type Entry struct {
	Server Server `json:"server"`
	Meta   struct {
		Official *Official `json:"io.modelcontextprotocol.registry/official,omitempty"`
	} `json:"_meta,omitzero"`
}

// Official is what the official registry says about an entry.
type Official struct {
	Status        string `json:"status,omitempty"` // active, deprecated or deleted
	StatusMessage string `json:"statusMessage,omitempty"`
	PublishedAt   string `json:"publishedAt,omitempty"`
	UpdatedAt     string `json:"updatedAt,omitempty"`
	IsLatest      bool   `json:"isLatest,omitempty"`
}

// Server is the description of a server, as in server.json.
type Server struct {
	Name        string      `json:"name"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty"`
	Version     string      `json:"version"`
	WebsiteURL  string      `json:"websiteUrl,omitempty"`
	Repository  *Repository `json:"repository,omitempty"`
	Packages    []Package   `json:"packages,omitempty"`
	Remotes     []Transport `json:"remotes,omitempty"`
}

// Repository is the source code of a server.
type Repository struct {
	URL    string `json:"url,omitempty"`
	Source string `json:"source,omitempty"`
}

// Package is a program that is a server.
type Package struct {
	RegistryType         string     `json:"registryType"`
	RegistryBaseURL      string     `json:"registryBaseUrl,omitempty"`
	Identifier           string     `json:"identifier"`
	Version              string     `json:"version,omitempty"`
	FileSHA256           string     `json:"fileSha256,omitempty"`
	RuntimeHint          string     `json:"runtimeHint,omitempty"`
	Transport            Transport  `json:"transport"`
	RuntimeArguments     []Argument `json:"runtimeArguments,omitempty"`
	PackageArguments     []Argument `json:"packageArguments,omitempty"`
	EnvironmentVariables []KeyValue `json:"environmentVariables,omitempty"`
}

// Transport is how a client connects to a server.
type Transport struct {
	Type      string           `json:"type"`
	URL       string           `json:"url,omitempty"`
	Headers   []KeyValue       `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// Input is a value that the description sets, or that the user enters.
type Input struct {
	Description string   `json:"description,omitempty"`
	IsRequired  bool     `json:"isRequired,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
	Format      string   `json:"format,omitempty"`
	Value       string   `json:"value,omitempty"`
	Default     string   `json:"default,omitempty"`
	Placeholder string   `json:"placeholder,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// KeyValue is an environment variable or a header field.
type KeyValue struct {
	Input
	Name      string           `json:"name"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// Argument is an argument of a program.
type Argument struct {
	Input
	Type       string           `json:"type"`           // positional or named
	Name       string           `json:"name,omitempty"` // of a named argument, with its dashes
	ValueHint  string           `json:"valueHint,omitempty"`
	IsRepeated bool             `json:"isRepeated,omitempty"`
	Variables  map[string]Input `json:"variables,omitempty"`
}

// Search returns the latest versions of at most limit servers whose names contain words. more reports that there are
// others.
func (c *Client) Search(ctx context.Context, words string, limit int) (found []Entry, more bool, err error) {
	cursor := ""
	for {
		query := url.Values{"search": {words}, "version": {"latest"}, "limit": {strconv.Itoa(min(limit, pageSize))}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Servers  []Entry `json:"servers"`
			Metadata struct {
				NextCursor string `json:"nextCursor"`
			} `json:"metadata"`
		}
		if err := c.get(ctx, "/v0.1/servers?"+query.Encode(), &page); err != nil {
			return nil, false, err
		}
		found = append(found, page.Servers...)
		next := page.Metadata.NextCursor
		if len(found) >= limit {
			return found[:limit], len(found) > limit || next != "", nil
		}
		if next == "" || next == cursor || len(page.Servers) == 0 {
			return found, false, nil
		}
		cursor = next
	}
}

// Get returns a version of a server. The version can be "latest".
func (c *Client) Get(ctx context.Context, name, version string) (*Entry, error) {
	e := new(Entry)
	err := c.get(ctx, "/v0.1/servers/"+url.PathEscape(name)+"/versions/"+url.PathEscape(version), e)
	if err == nil && e.Server.Name != name {
		err = fmt.Errorf("the registry sent the server %q instead of %q", e.Server.Name, name)
	}
	return e, err
}

// get gets a JSON value.
func (c *Client) get(ctx context.Context, path string, to any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address := strings.TrimRight(c.URL, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.UserAgent)
	httpClient := c.HTTP
	if httpClient == nil {
		httpClient = http.DefaultClient
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot reach the registry: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the response of the registry: %w", err)
	case len(body) > maxBody:
		return fmt.Errorf("response of the registry is too large: the limit is %d bytes", maxBody)
	case resp.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the registry %s responds with the status %s", c.URL, resp.Status)
	}
	if err := schema.Decode(body, to); err != nil {
		return fmt.Errorf("the response of the registry %s is invalid: %w", c.URL, err)
	}
	return nil
}
