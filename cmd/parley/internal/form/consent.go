package form

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Consent asks whether the user will visit a URL for a server. It shows the whole URL
// and what is suspicious about it, and neither opens nor fetches it: that is left to
// the user. A URL that is none for browsers is an error.
func (s *Screen) Consent(ctx context.Context, from string, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	address, err := parseAddress(params.URL)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Out, "\n%s wants you to visit a page of %s:\n\n%s\n\n  %s\n\n",
		terminal.Line(from), address.Hostname(), terminal.Block(params.Message), params.URL)
	for _, warning := range suspicions(address) {
		fmt.Fprintf(s.Out, "  warning: %s\n\n", warning)
	}
	action, err := s.choose(ctx, "Will you visit it? parley does not open it: copy the address into your browser.", "Yes", "No")
	return &mcp.ElicitResult{Action: action}, err
}

// parseAddress returns what a URL consists of, if it can be shown as it is.
func parseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
	case u.Scheme != "https" && u.Scheme != "http":
		err = fmt.Errorf("the scheme %.16q is not one of web pages", u.Scheme)
	case u.Hostname() == "":
		err = fmt.Errorf("it has no host")
	case terminal.Line(text) != text || strings.ContainsRune(text, ' '):
		err = fmt.Errorf("it has characters that are not seen")
	}
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: url: %s", err)
	}
	return u, nil
}

// suspicions says what about a URL may deceive somebody who reads it.
func suspicions(u *url.URL) []string {
	var found []string
	host := strings.ToLower(u.Hostname())
	var foreign []string
	for _, r := range host {
		if r > 0x7E {
			foreign = append(foreign, fmt.Sprintf("%c (U+%04X)", r, r))
		}
	}
	if foreign != nil {
		found = append(found, "the host has letters that may look like others: "+strings.Join(foreign, ", "))
	}
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		found = append(found, "the host is in Punycode (xn--): a browser may show it as letters that look like others")
	}
	if u.User != nil {
		found = append(found, "what stands before the @ is not the host: that is "+u.Hostname())
	}
	if u.Scheme == "http" && !loopback(host) {
		found = append(found, "what you enter there is sent unencrypted (http)")
	}
	return found
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
