package form

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Consent asks whether the user will visit a URL for a server. It shows the whole URL,
// its host standing out, and what is suspicious about it. The page is opened, by
// Screen.Open, when the user says so and not before; nothing else fetches it. Whoever
// is asked again for the same page is asked whether they are done there. A URL that is
// none for browsers is an error.
func (s *Screen) Consent(ctx context.Context, from string, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	address, err := parseAddress(params.URL)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(s.Out, "\n%s wants you to visit a page of %s:\n\n%s\n\n  %s\n\n",
		terminal.Line(from), address.Hostname(), terminal.Block(params.Message), highlighted(params.URL))
	for _, warning := range suspicions(address) {
		fmt.Fprintf(s.Out, "  warning: %s\n\n", warning)
	}
	again := s.visited[from+" "+params.URL]
	choice, err := s.offer(ctx, again)
	switch {
	case err != nil || choice == cancel:
		return &mcp.ElicitResult{Action: mcp.ElicitCancel}, err
	case choice == decline:
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	case choice == open:
		if err := s.Open(ctx, params.URL); err != nil {
			fmt.Fprintf(s.Out, "  It could not be opened: %s. Copy the address into your browser.\n\n", terminal.Line(err.Error()))
		}
	}
	s.remember(from + " " + params.URL)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
}

// What a user may say to a page.
type visit int

const (
	cancel visit = iota
	open
	agree // they have been there, or go there by themselves
	decline
)

// offer has the user choose. Only what they choose is done.
func (s *Screen) offer(ctx context.Context, again bool) (visit, error) {
	title, agreed, opened := "Will you visit it?", "Yes, I copy the address into my browser", "Yes, open it in my browser"
	if again {
		title, agreed, opened = "Are you done there? The server does not know yet.", "Go on", "Open it in my browser again"
	}
	var options []option[visit]
	if s.Open != nil {
		options = append(options, option[visit]{opened, open})
	}
	options = append(options, option[visit]{agreed, agree})
	if again && s.Open != nil {
		options[0], options[1] = options[1], options[0]
	}
	options = append(options, option[visit]{"No", decline}, option[visit]{"Leave without an answer", cancel})
	return choose(ctx, s, title, options)
}

// maxVisited bounds the pages that are remembered.
const maxVisited = 64

func (s *Screen) remember(page string) {
	if s.visited == nil || len(s.visited) >= maxVisited {
		s.visited = make(map[string]bool)
	}
	s.visited[page] = true
}

// highlighted is a URL whose host stands out, so that it is not taken for another
// that its other parts resemble.
func highlighted(address string) string {
	start := strings.Index(address, "://") + len("://")
	end := start + len(address[start:])
	if i := strings.IndexAny(address[start:], "/?#"); i >= 0 {
		end = start + i
	}
	return address[:start] + "\x1b[1;7m" + address[start:end] + "\x1b[0m" + address[end:]
}

// parseAddress returns what a URL consists of, if it can be shown as it is.
func parseAddress(text string) (*url.URL, error) {
	u, err := mcp.ParseElicitURL(text)
	if err == nil && terminal.Line(text) != text {
		err = fmt.Errorf("the URL has characters that a terminal would act upon")
	}
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
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
	return found
}
