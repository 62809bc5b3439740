package policy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/schema"
)

const (
	defaultHookTimeout = 5 * time.Second
	// maxAnswer is the maximum length of the answer of a hook, in bytes.
	maxAnswer = 16 << 20
	maxReason = 500 // bytes
)

// Hook is one webhook of a configuration. It receives a POST request with a JSON object. It answers with the status
// 204 to let the request or result pass, or with the status 200 and a JSON object: action is allow or deny, reason is a
// text for the caller, and arguments or result replace those of the request. Every other answer rejects.
type Hook struct {
	config.Hook
	URL    string // without references
	Header http.Header
}

// DeniedError is the error for a request or result that a hook denies. Other errors mean that the hook has not
// answered well.
type DeniedError struct{ Reason string }

// Error returns the reason.
func (e *DeniedError) Error() string { return e.Reason }

// ExpandHook returns the webhook that a configuration file describes.
func ExpandHook(h *config.Hook, values *config.Values) (Hook, error) {
	address, headers, err := h.Expand(values)
	if err != nil {
		return Hook{}, err
	}
	hook := Hook{Hook: *h, URL: address, Header: make(http.Header)}
	for _, p := range headers {
		hook.Header.Add(p.Name, p.Value)
	}
	if err := hook.Check(); err != nil {
		return Hook{}, fmt.Errorf("%s: %w", h.Source, err)
	}
	return hook, nil
}

// matches reports whether the hook is called for a request.
func (h *Hook) matches(r *host.Request) bool {
	return !slices.Contains(h.Except, r.Server) && (h.Server == "" || glob.Match(h.Server, r.Server)) &&
		(h.Tool == "" || r.Kind == host.KindTool && glob.Match(h.Tool, r.Name))
}

// Check returns an error unless the URL is one of http or https with a host.
func (h *Hook) Check() error {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("the URL of a hook must begin with http:// or https://")
	}
	return nil
}

// HookClient sends the requests of hooks. It follows no redirects.
type HookClient struct{ http *http.Client }

// NewHookClient returns a HookClient. The caller closes it.
func NewHookClient() *HookClient {
	return &HookClient{&http.Client{
		Transport:     client.NewTransport(), // a lost request would reject a call
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *HookClient) Close() { c.http.CloseIdleConnections() }

// event is what a hook receives.
type event struct {
	Event     string          `json:"event"` // request or response
	Server    string          `json:"server"`
	Method    string          `json:"method"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Caller    caller          `json:"caller"`
}

type caller struct {
	Issuer  string   `json:"issuer,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Client  string   `json:"client,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
}

// answer is what a hook answers.
type answer struct {
	Action    string          `json:"action"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// Request calls the hook with a request, and sets r.Arguments if the hook changes them.
func (c *HookClient) Request(ctx context.Context, h *Hook, r *host.Request) error {
	if !h.Request || !h.matches(r) {
		return nil
	}
	a, err := c.call(ctx, h, newEvent("request", r, nil))
	switch {
	case err != nil:
		return err
	case a.Result != nil:
		return errors.New("the hook answered a request with a result")
	case a.Arguments != nil && r.Arguments == nil:
		return errors.New("the hook answered with arguments, but the request has none")
	case a.Arguments != nil:
		r.Arguments = a.Arguments
	}
	return nil
}

// Response calls the hook with a result, and returns the result for the caller.
func (c *HookClient) Response(ctx context.Context, h *Hook, r *host.Request, result json.RawMessage) (json.RawMessage,
	error) {
	if !h.Response || !h.matches(r) {
		return result, nil
	}
	a, err := c.call(ctx, h, newEvent("response", r, result))
	switch {
	case err != nil:
		return nil, err
	case a.Arguments != nil:
		return nil, errors.New("the hook answered a result with arguments")
	case a.Result != nil:
		return a.Result, nil
	}
	return result, nil
}

func newEvent(name string, r *host.Request, result json.RawMessage) *event {
	p := r.Caller.Principal
	return &event{
		Event: name, Server: r.Server, Method: r.Method, Kind: string(r.Kind), Name: r.Name, Arguments: r.Arguments,
		Result: result,
		Caller: caller{p.Issuer(), p.Subject(), p.Client(), r.Caller.Scopes},
	}
}

// call sends an event. An error says nothing of the URL but its host, because the URL can be secret.
func (c *HookClient) call(ctx context.Context, h *Hook, e *event) (*answer, error) {
	body, err := schema.Marshal(e)
	if err != nil {
		return nil, err
	}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = defaultHookTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL of the hook is invalid")
	}
	for name, values := range h.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("cannot call the hook at %s: %w", req.URL.Host, err)
	}
	defer response.Body.Close()
	return read(response, req.URL.Host)
}

// read reads the answer of a hook.
func read(response *http.Response, from string) (*answer, error) {
	switch response.StatusCode {
	case http.StatusNoContent:
		return &answer{Action: "allow"}, nil
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("the hook at %s answered with status %d; it must be 200 or 204", from,
			response.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil ||
		kind != "application/json" {
		return nil, fmt.Errorf("the answer of the hook at %s must have the content type application/json", from)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the answer of the hook at %s: %w", from, err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("the answer of the hook at %s is too long: the limit is %d bytes", from, maxAnswer)
	}
	a := new(answer)
	if err := schema.Decode(raw, a); err != nil {
		return nil, fmt.Errorf("the answer of the hook at %s is invalid: %w", from, err)
	}
	switch a.Action {
	case "allow":
		return a, nil
	case "deny":
		return nil, &DeniedError{fmt.Sprintf("%.*s", maxReason, cmp.Or(a.Reason, "rejected"))}
	}
	return nil, fmt.Errorf(`the action of the hook at %s must be allow or deny, not %.20q`, from, a.Action)
}
