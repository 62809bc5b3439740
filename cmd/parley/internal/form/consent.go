package form

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Consent asks the user to open a URL for a server. It shows the whole URL, highlights the
// host, and warns about deceptive hosts. It opens the page with Screen.Open, only after the
// user has chosen to, and does not fetch it in any other way. If a server asks for the same
// page again, Consent asks the user whether to continue. It returns an error for a URL that
// is not a web page's, and ErrInterrupted.
func (s *Screen) Consent(ctx context.Context, from string, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	address, err := parseAddress(params.URL)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Out, "\n%s asks you to open a page at %s:\n\n%s\n\n  %s\n\n",
		terminal.Line(from), address.Hostname(), terminal.Block(params.Message), highlighted(params.URL))
	for _, warning := range warnings(address) {
		fmt.Fprintf(s.Out, "  warning: %s\n\n", warning)
	}
	again := s.accepted[from+" "+params.URL]
	chosen, err := s.askConsent(ctx, again)
	switch {
	case err != nil || chosen == cancel:
		return &mcp.ElicitResult{Action: mcp.ElicitCancel}, err
	case chosen == decline:
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	case chosen == open:
		if err := s.Open(ctx, params.URL); err != nil {
			fmt.Fprintf(s.Out, "  Cannot open the browser: %s. Copy the address into a browser.\n\n", terminal.Line(err.Error()))
		}
	}
	s.remember(from + " " + params.URL)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
}

// choice is the user's answer to a request to open a page.
type choice int

const (
	cancel choice = iota
	open
	agree // the user has opened the page, or opens it without parley
	decline
)

// askConsent asks the user what to do. again says that the user has accepted the page before.
func (s *Screen) askConsent(ctx context.Context, again bool) (choice, error) {
	title, agreed, opened := "Open this page?", "I will copy the address into a browser", "Open it in the browser"
	if again {
		title, agreed, opened = "The server is still waiting for this page. Have you finished there?", "Continue", "Open it in the browser again"
	}
	var options []option[choice]
	if s.Open != nil {
		options = append(options, option[choice]{opened, open})
	}
	options = append(options, option[choice]{agreed, agree})
	if again && s.Open != nil {
		options[0], options[1] = options[1], options[0]
	}
	options = append(options, option[choice]{"Decline", decline}, option[choice]{"Cancel", cancel})
	return choose(ctx, s, title, options)
}

const maxAccepted = 64 // pages

func (s *Screen) remember(page string) {
	if s.accepted == nil || len(s.accepted) >= maxAccepted {
		s.accepted = make(map[string]bool)
	}
	s.accepted[page] = true
}

// highlighted returns the URL with its host in reverse video, so that the user cannot
// mistake another part of the URL for the host.
func highlighted(address string) string {
	start := strings.Index(address, "://") + len("://")
	end := start + len(address[start:])
	if i := strings.IndexAny(address[start:], "/?#"); i >= 0 {
		end = start + i
	}
	return address[:start] + "\x1b[1;7m" + address[start:end] + "\x1b[0m" + address[end:]
}

// parseAddress parses a URL. It returns an error if the URL contains characters that cannot
// be shown unchanged.
func parseAddress(text string) (*url.URL, error) {
	u, err := mcp.ParseElicitURL(text)
	if err == nil && terminal.Line(text) != text {
		err = errors.New("url must not contain control characters")
	}
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	return u, nil
}

// warnings returns the reasons why the host of a URL may deceive the user.
func warnings(u *url.URL) []string {
	var found []string
	host := strings.ToLower(u.Hostname())
	var foreign []string
	for _, r := range host {
		if r > 0x7E {
			foreign = append(foreign, fmt.Sprintf("%c (U+%04X)", r, r))
		}
	}
	if foreign != nil {
		found = append(found, "the host contains letters that can look like other letters: "+strings.Join(foreign, ", "))
	}
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		found = append(found, "the host is in Punycode (xn--); a browser can show it as letters that look like other letters")
	}
	return found
}
