package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/store"
)

// ResultURI is the prefix of the URIs of large results; see [ServerConfig.MaxResult]. The name of the server, a slash
// and an id follow.
const ResultURI = "parley:result/"

// Limits of the results that are stored for one principal.
const (
	resultTTL      = time.Hour
	maxResults     = 100
	maxResultBytes = 64 << 20
	resultsTimeout = 10 * time.Second // time limit for requests to the store
)

// results stores large results of tools.
type results struct {
	kv     store.Store // encrypts if the host has keys
	logger *slog.Logger
}

// newResults returns the storage for results: kv, encrypted with keys if there are any, or memory.
func newResults(kv store.Store, keys [][]byte, logger *slog.Logger) (*results, error) {
	r := &results{store.NewMemory(), logger}
	if kv != nil {
		r.kv = kv
	}
	if len(keys) > 0 {
		ring, err := seal.New(keys...)
		if err != nil {
			return nil, fmt.Errorf("host: keys of the server: %w", err)
		}
		r.kv = ring.Store(r.kv, logger)
	}
	return r, nil
}

// storedResult is a large result and the call that made it, in stored form.
type storedResult struct {
	Tool      string                `json:"tool"`
	Arguments json.RawMessage       `json:"arguments,omitempty"` // for the policy; nil without a policy
	Contents  *mcp.ResourceContents `json:"contents"`
}

// limited returns a result of a tool, or its beginning and a link to the resource if it is too large. arguments are
// the arguments of the call, if the policy needs them.
func (s *supervisor) limited(ctx context.Context, tool string, arguments json.RawMessage,
	result *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	limit := s.config.MaxResult
	if len(result.Source) <= limit {
		return result, nil
	}
	whole := result
	if whole.Content == nil { // see client.WithUndecodedText
		whole = new(mcp.CallToolResult)
		if _, _, err := contain.Decode(result.Source, whole); err != nil {
			return nil, fmt.Errorf("%w: tools/call %s: %w", call.ErrInvalidResponse, tool, err)
		}
	}
	cut := &mcp.CallToolResult{IsError: whole.IsError}
	note := fmt.Sprintf("The result has %d bytes, more than the limit of %d.", len(result.Source), limit)
	contents := &mcp.ResourceContents{MimeType: "text/plain"}
	var isText bool
	if contents.Text, isText = textOfBlocks(whole.Content); isText {
		cut.Content = append(cut.Content, mcp.Text(beginningOf(contents.Text, limit)))
		note += " This is its beginning."
	} else {
		contents.MimeType, contents.Text = "application/json", string(result.Source)
	}
	uri, err := s.host.results.put(ctx, s.name, callerOf(ctx).Principal.Key(), &storedResult{tool, arguments, contents})
	if err != nil {
		s.logger.WarnContext(ctx, "cannot store a large result", "tool", tool, "error", err)
		cut.Content = append(cut.Content, mcp.Text("["+note+" The rest cannot be stored.]"))
		return cut, nil
	}
	size := int64(len(contents.Text))
	link := &mcp.ResourceLink{URI: uri, Name: tool, Title: "Result of " + tool, MimeType: contents.MimeType,
		Size: &size}
	cut.Content = append(cut.Content, mcp.Text("["+note+" The resource "+uri+" has all of it, for one hour.]"), link)
	return cut, nil
}

// textOfBlocks returns the text of content that consists only of text.
func textOfBlocks(blocks []mcp.Content) (text string, ok bool) {
	var parts []string
	for _, block := range blocks {
		t, ok := block.(*mcp.TextContent)
		if !ok {
			return "", false
		}
		parts = append(parts, t.Text)
	}
	return strings.Join(parts, "\n"), len(parts) > 0
}

// beginningOf returns up to n bytes of a text, without cutting a character.
func beginningOf(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// put stores a result for a principal, and returns its URI. If the principal has too many results, the oldest
// are removed. Replicas with the same KV share these limits.
func (r *results) put(ctx context.Context, server, principal string, result *storedResult) (uri string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultsTimeout) // the tool has run
	defer cancel()
	id := rand.Text()
	uri = ResultURI + server + "/" + id
	result.Contents.URI = uri
	value, err := schema.Marshal(result)
	if err != nil {
		return "", err
	}
	key := resultKey(principal, server, id)
	if len(value) > maxResultBytes {
		return "", store.ErrFull
	}
	if err := r.evict(ctx, principal, len(value)); err != nil {
		return "", err
	}
	entry := resultEntry{time.Now(), len(value), server + "/" + id}
	if err := r.kv.Add(ctx, resultsOf(principal), entry.String(), resultTTL, maxResults); err != nil {
		return "", err
	}
	if _, err := r.kv.Put(ctx, key, value, store.PutOptions{TTL: resultTTL}); err != nil {
		return "", errors.Join(err, r.kv.Remove(ctx, resultsOf(principal), entry.String()))
	}
	return uri, nil
}

// evict removes the oldest results of a principal until another one of size bytes fits, and removes expired
// results.
func (r *results) evict(ctx context.Context, principal string, size int) error {
	set := resultsOf(principal)
	members, err := r.kv.List(ctx, set, "", maxResults)
	if err != nil {
		return err
	}
	count := len(members)
	for _, member := range members {
		size += parseResultEntry(member).size
	}
	for _, member := range members {
		e := parseResultEntry(member)
		if count < maxResults && size <= maxResultBytes && time.Since(e.stored) < resultTTL {
			return nil
		}
		server, id, _ := strings.Cut(e.name, "/")
		if err := errors.Join(r.kv.Delete(ctx, resultKey(principal, server, id)),
			r.kv.Remove(ctx, set, member)); err != nil {
			return err
		}
		count--
		size -= e.size
	}
	return nil
}

// get returns the result with a URI. The error wraps call.ErrResourceNotFound if the principal has no such result.
func (r *results) get(ctx context.Context, server, principal, uri string) (*storedResult, error) {
	ctx, cancel := context.WithTimeout(ctx, resultsTimeout)
	defer cancel()
	key := resultKey(principal, server, strings.TrimPrefix(uri, ResultURI+server+"/"))
	item, err := r.kv.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("%w: results are kept for an hour, for their callers", call.ErrResourceNotFound)
	case err != nil: // the error may contain addresses
		r.logger.ErrorContext(ctx, "cannot read a stored result", "error", err)
		return nil, errors.New("cannot read a stored result: try again later")
	}
	result := new(storedResult)
	if err := schema.Decode(item.Value, result); err != nil || result.Contents == nil {
		return nil, fmt.Errorf("cannot read a stored result: %w", cmp.Or(err, errors.New("it has no contents")))
	}
	return result, nil
}

// isResult reports whether a URI may belong to a result of a server.
func isResult(server, uri string) bool { return strings.HasPrefix(uri, ResultURI+server+"/") }

func resultsOf(principal string) string { return principal + "results" }

func resultKey(principal, server, id string) string {
	return principal + "result/" + server + "/" + id
}

// resultEntry is a member of the set of a principal's results. Its text begins with the time, so that the oldest
// sorts first.
type resultEntry struct {
	stored time.Time
	size   int
	name   string // the server and the ID, joined by a slash
}

func (e resultEntry) String() string {
	return fmt.Sprintf("%016x %d %s", e.stored.UnixNano(), e.size, e.name)
}

// parseResultEntry parses what String returns. For any other text, it returns the zero value.
func parseResultEntry(text string) (e resultEntry) {
	var at int64
	if _, err := fmt.Sscanf(text, "%x %d %s", &at, &e.size, &e.name); err != nil {
		return resultEntry{}
	}
	e.stored = time.Unix(0, at)
	return e
}

// callLimited calls a tool of a server with MaxResult. The options must include client.WithSource.
func (h *Host) callLimited(ctx context.Context, s *supervisor, r Request, arguments any,
	options []client.CallOption) (*mcp.CallToolResult, error) {
	var sent json.RawMessage // the arguments after the hooks
	result, err := guard(ctx, h, s, r, arguments, func(arguments any) (*mcp.CallToolResult, error) {
		if h.Policy != nil {
			sent, _ = arguments.(json.RawMessage) // guard has encoded them
		}
		return s.callTool(ctx, r.Name, arguments, options)
	})
	if err != nil {
		return nil, err
	}
	return s.limited(ctx, r.Name, sent, result)
}

// readResult reads a large result that is stored for the caller. The policy decides as if it were the call that
// made the result.
func (h *Host) readResult(ctx context.Context, s *supervisor, uri string) (*mcp.ReadResourceResult, error) {
	who := callerOf(ctx).Principal.Key()
	if !h.guards() {
		stored, err := h.results.get(ctx, s.name, who, uri)
		return stored.read(), err
	}
	p := h.newPassage(ctx, &Request{Method: mcp.MethodReadResource, Server: s.name, Kind: KindResource, Name: uri})
	stored, err := h.results.get(ctx, s.name, who, uri)
	if err == nil {
		err = p.checkCall(ctx, s, stored)
	}
	if err = p.conclude(ctx, err); err != nil {
		return nil, err
	}
	if h.Audit != nil {
		h.recordLater(ctx, p.end("done", "", len(stored.Contents.Text), nil))
	}
	return stored.read(), nil
}

// checkCall returns nil if the call that made a result would be sent, or if the user would be asked, because the user
// has already approved the call.
func (p *passage) checkCall(ctx context.Context, s *supervisor, of *storedResult) (err error) {
	r := &Request{Method: mcp.MethodCallTool, Server: s.name, Kind: KindTool, Name: of.Tool, Arguments: of.Arguments,
		Caller: p.request.Caller}
	// The server may be down, or may have removed the tool since.
	if r.Tool, err = s.definition(ctx, r); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	p.decided = p.host.Policy != nil
	p.decision, err = p.host.decide(ctx, r)
	return err
}

// read returns the result of resources/read for r, or nil if r is nil.
func (r *storedResult) read() *mcp.ReadResourceResult {
	if r == nil {
		return nil
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{*r.Contents}}
}
