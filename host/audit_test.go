package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
)

func TestAuditRecordHasCallerAndShapeWithoutValues(t *testing.T) {
	up, audit := newCounted(), &log{}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Policy: always(host.Allow), Audit: audit.write})
	ada, err := principal.New("https://as.example", "ada", "editor")
	if err != nil {
		t.Fatal(err)
	}
	ctx := auth.NewContext(t.Context(), &auth.Info{Principal: ada, Claims: json.RawMessage(`{"sub":"ada","act":{"sub":"agent","act":{"sub":"desk"}},"jti":"c0ffee"}`)})
	arguments := `{"text":"s3cret","list":[{"a":1}],"deep":{"a":{"b":{"c":true}}},"none":null,"n":1.5,"yes":true}`
	if _, err := h.CallTool(ctx, "up", "write", json.RawMessage(arguments)); err != nil {
		t.Fatal(err)
	}
	if len(audit.records) != 2 {
		t.Fatalf("%d records, want 2", len(audit.records))
	}
	var lines [2]map[string]any
	for i := range lines {
		if string(audit.records[i].Arguments) != arguments {
			t.Errorf("the record has the arguments %s", audit.records[i].Arguments)
		}
		raw, err := json.Marshal(&audit.records[i])
		if err != nil {
			t.Fatal(err)
		}
		if text := string(raw); strings.Contains(text, "s3cret") || strings.Contains(text, "c0ffee") {
			t.Errorf("the record has values: %s", text)
		}
		if err := json.Unmarshal(raw, &lines[i]); err != nil {
			t.Fatal(err)
		}
		delete(lines[i], "time")
	}
	want := map[string]any{
		"event": "allowed", "call": 1.0, "issuer": "https://as.example", "subject": "ada", "client": "editor", "actors": []any{"agent", "desk"},
		"server": "up", "method": "tools/call", "kind": "tool", "name": "write", "decision": "allow", "reason": "no rule of the policy matches", "policyVersion": "1",
		"arguments": map[string]any{"text": "string", "list": "array", "deep": map[string]any{"a": map[string]any{"b": "object"}}, "none": "null", "n": "number", "yes": "boolean"},
	}
	if diff := cmp.Diff(want, lines[0]); diff != "" {
		t.Errorf("first record (- want, + got):\n%s", diff)
	}
	if lines[1]["event"] != "done" || lines[1]["outcome"] != "tool error" || // the schema of the tool has no such arguments
		lines[1]["call"] != 1.0 || lines[1]["seconds"].(float64) <= 0 || lines[1]["bytes"].(float64) < 20 {
		t.Errorf("second record: %v", lines[1])
	}
}

func TestAuditRecordsHowRequestsEnd(t *testing.T) {
	up, audit := newCounted(), &log{}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up"), {Name: "down", Target: inProcess("down").Target}}, Audit: audit.write})
	if _, err := h.CallTool(t.Context(), "up", "fail", nil); err != nil {
		t.Fatal(err)
	}
	audit.want(t, "allowed fail", "done fail, tool error")
	if _, err := h.CallTool(t.Context(), "up", "missing", nil); err == nil {
		t.Error("a missing tool can be called")
	}
	audit.want(t, "allowed missing", "done missing, error, code -32602")
	if _, err := h.CallTool(t.Context(), "down", "die", nil); err == nil {
		t.Error("a tool that ends its server has a result")
	}
	audit.want(t, "allowed die", "done die, error, connection lost")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.CallTool(ctx, "up", "write", nil); err == nil {
		t.Error("a cancelled call has a result")
	}
	audit.want(t, "allowed write", "done write, error, cancelled")
}

func TestRequestThatCannotBeRecordedIsNotSent(t *testing.T) {
	for name, write := range map[string]func(context.Context, *host.AuditRecord) error{
		"error": func(context.Context, *host.AuditRecord) error { return errors.New("disk full") },
		"panic": func(context.Context, *host.AuditRecord) error { panic("disk full") },
	} {
		up := newCounted()
		h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Audit: write})
		_, err := h.CallTool(t.Context(), "up", "write", nil)
		wantDenied(t, err, "cannot be recorded")
		if up.calls.Load() != 0 {
			t.Errorf("%s: the call reached the server", name)
		}
	}
}

func TestShapeOfArgumentsIsBounded(t *testing.T) {
	up, audit := newCounted(), &log{}
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, up.Server, "up")}, Audit: audit.write})
	large := make(map[string]any)
	for i := range 100 {
		inner := make(map[string]any)
		for j := range 100 {
			inner[fmt.Sprint(strings.Repeat("long", 20), j)] = j
		}
		large[fmt.Sprint("name", i)] = inner
	}
	if _, err := h.CallTool(t.Context(), "up", "write", large); err != nil {
		t.Fatal(err)
	}
	if shape := audit.records[0].Shape; !json.Valid(shape) || len(shape) > 256*80 || strings.Count(string(shape), ":") != 256 {
		t.Errorf("the shape has %d bytes and %d members", len(shape), strings.Count(string(shape), ":"))
	}
}
