package call

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// URLRequiredError is the error of a server's handler that needs its user to open some URLs
// first. The handler must return it before it does any work, because the client repeats the
// call.
//
// In 2025-11-25 the client receives the error URLElicitationRequired. In 2026-07-28, which has
// no such error, the client is asked to have the user open the URLs, and the handler runs again
// (both: client/elicitation). A task of either revision and a parked call ask for the URLs, too, and
// the handler runs again when Done of all URLs has returned, up to 5 times. Clients of earlier
// revisions receive an error with the URLs as text.
type URLRequiredError struct {
	URLs []RequiredURL // 1 to 8
}

// RequiredURL is a URL that the user must open; see [URLRequiredError].
type RequiredURL struct {
	URL     string // a URL that mcp.ParseElicitURL accepts
	Message string // tells the user why
	ID      string // the elicitation id in 2025-11-25; empty for a random one
	// Done reports whether the user has finished. In 2025-11-25 the server calls it repeatedly
	// after the call has ended, until it returns true or an error, and then notifies the
	// client. Its context has the values of the call's context and ends with the session. The
	// server calls at most 16 functions of a session and 1,024 in all at a time; for further
	// URLs the client is not notified. If Done is nil, the client is not notified. In a task or
	// parked call the server calls Done after the user has agreed to open the URL, and does not
	// notify the client.
	Done func(ctx context.Context) (bool, error)
	// Within limits how long Done is called. 0 means 5 minutes; the maximum is one hour.
	Within time.Duration
}

// Error implements the error interface.
func (e *URLRequiredError) Error() string {
	var all []string
	for _, u := range e.URLs {
		all = append(all, fmt.Sprintf("%s (%s)", u.URL, u.Message))
	}
	return "the user must open " + strings.Join(all, ", ") + " first; then repeat the call"
}
