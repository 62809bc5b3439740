package client

import (
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/mcp"
)

// filterIcons removes the icons of another origin than the server's (2025-11-25, basic, icons):
// fetching them would tell a third party about the user. A server on a byte stream has no
// origin. Package mcp has removed icons with other schemes than https and data.
func (c *Client) filterIcons(icons *mcp.Icons) {
	t, ok := c.target.(*HTTPTarget)
	if !ok || len(*icons) == 0 {
		return
	}
	server, err := url.Parse(t.URL)
	*icons = slices.DeleteFunc(slices.Clone(*icons), func(icon mcp.Icon) bool {
		if !strings.HasPrefix(strings.ToLower(icon.Src[:min(len(icon.Src), len("https:"))]), "https:") {
			return false
		}
		source, err2 := url.Parse(icon.Src)
		return err != nil || err2 != nil || !httpurl.SameOrigin(server, source)
	})
}

// filterLinks removes icons of resource links, as filterIcons does.
func (c *Client) filterLinks(content []mcp.Content) {
	for _, one := range content {
		if link, ok := one.(*mcp.ResourceLink); ok {
			c.filterIcons(&link.Icons)
		}
	}
}
