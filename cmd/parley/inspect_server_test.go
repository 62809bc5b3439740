//go:build browser

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// orderSchema has nested objects, arrays, choices, defaults and alternatives.
const orderSchema = `{
  "type": "object",
  "required": ["customer", "items", "delivery"],
  "properties": {
    "customer": {"type": "object", "description": "Who pays", "required": ["name"], "properties": {
      "name": {"type": "string", "minLength": 1},
      "email": {"type": "string", "format": "email"}
    }},
    "items": {"type": "array", "minItems": 1, "maxItems": 5, "items": {"type": "object", "required": ["article", "quantity"], "properties": {
      "article": {"enum": ["lamp", "chair", "table"]},
      "quantity": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1}
    }}},
    "delivery": {"oneOf": [
      {"title": "Pick up", "type": "object", "required": ["way", "shop"], "properties": {"way": {"const": "pickup"}, "shop": {"enum": ["north", "south"]}}},
      {"title": "Post", "type": "object", "required": ["way", "address"], "properties": {"way": {"const": "post"}, "address": {"$ref": "#/$defs/address"}}}
    ]},
    "gift": {"type": "boolean"},
    "extras": {"type": "array", "uniqueItems": true, "items": {"enum": ["wrap", "card"]}}
  },
  "$defs": {"address": {"type": "object", "required": ["street", "city"], "properties": {"street": {"type": "string"}, "city": {"type": "string", "minLength": 2}}}}
}`

const gallery = "# Gallery\n\nA **bold** word, `code`, a [link](https://example.com/) and <script>document.title = \"broken\"</script>.\n\n- one\n- two\n  - nested\n\n| name | size |\n|---|---|\n| cup | 3 |\n"

// appPage is a page for MCP Apps. It tries what it must not be able to do, and shows the result of its tool.
const appPage = `<!doctype html><html><body><p id="out">waiting</p><script>
let id = 0;
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
let reached = "sealed";
try { reached = parent.parent.document.title } catch {}
try { localStorage.setItem("a", "b"); reached = "storage" } catch {}
fetch("https://example.com/").then(() => (reached = "network"), () => {});
addEventListener("message", ({ data }) => {
  if (data.id === 1) send({ method: "ui/notifications/initialized", params: {} });
  if (data.method === "ui/notifications/tool-result") {
    document.getElementById("out").textContent = data.params.content[0].text;
    setTimeout(() => send({ id: 2, method: "tools/call", params: { name: "echo", arguments: { text: "app: " + data.params.content[0].text + ", " + reached } } }), 100);
  }
  if (data.id === 2) {
    send({ id: 3, method: "tools/call", params: { name: "hidden", arguments: {} } });
    send({ id: 4, method: "ui/message", params: { role: "user", content: { type: "text", text: "a message" } } });
    send({ id: 5, method: "ui/update-model-context", params: { structuredContent: { chosen: "a context" } } });
    send({ method: "notifications/message", params: { level: "info", data: "a log message" } });
    send({ method: "ui/notifications/size-changed", params: { width: 300, height: 123 } });
  }
  if (data.id === 3) send({ method: "notifications/message", params: { level: "debug", data: "hidden: " + (data.error?.message ?? "called") } });
  if (data.id === 5) send({ id: 7, method: "ui/request-display-mode", params: { mode: "fullscreen" } });
  if (data.method === "ui/notifications/host-context-changed") {
    send({ method: "notifications/message", params: { level: "debug", data: "now " + data.params.displayMode + ", " + data.params.theme } });
    send({ id: 8, method: "ui/request-display-mode", params: { mode: "pip" } });
  }
  if (data.id === 8) send({ method: "notifications/message", params: { level: "debug", data: "instead of pip " + data.result.mode } });
});
send({ id: 1, method: "ui/initialize", params: { protocolVersion: "2026-01-26", appInfo: { name: "test", version: "1" }, appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] } } });
</script></body></html>`

// noArguments is the schema of tools without arguments.
const noArguments = `{"type":"object"}`

// newGallery returns a server whose tools have every kind of argument and result.
func newGallery(t *testing.T) *server.Server {
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 20))); err != nil {
		t.Fatal(err)
	}
	wave := append([]byte("RIFF\x2c\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x08\x00\x00\x00"), bytes.Repeat([]byte{128}, 8)...)
	s := &server.Server{Name: "gallery", Version: "1"}
	register := func(tool mcp.Tool, result func(json.RawMessage) *mcp.CallToolResult) {
		err := s.RegisterTool(tool, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return result(arguments), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	text := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}
	}
	register(mcp.Tool{Name: "order", Title: "Order furniture", Description: "Order **furniture** for a customer.", InputSchema: json.RawMessage(orderSchema)},
		func(arguments json.RawMessage) *mcp.CallToolResult { return text("ordered " + string(arguments)) })
	register(mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}, func(arguments json.RawMessage) *mcp.CallToolResult {
		var in struct{ Text string }
		_ = json.Unmarshal(arguments, &in)
		return text(in.Text)
	})
	register(mcp.Tool{Name: "show", InputSchema: json.RawMessage(noArguments)}, func(json.RawMessage) *mcp.CallToolResult {
		return &mcp.CallToolResult{
			StructuredContent: json.RawMessage(`{"cups":[{"name":"cup","size":3}],"open":true}`),
			Content: []mcp.Content{
				mcp.Text(gallery), mcp.Image(picture.Bytes(), "image/png"), mcp.Audio(wave, "audio/wav"),
				&mcp.ResourceLink{URI: "gallery://note", Name: "note", Title: "The note", MimeType: "text/plain"},
			},
		}
	})
	register(mcp.Tool{Name: "app", InputSchema: json.RawMessage(noArguments), Meta: mcp.Meta{"ui": json.RawMessage(`{"resourceUri":"ui://gallery/app.html"}`)}},
		func(json.RawMessage) *mcp.CallToolResult { return text("the result") })
	register(mcp.Tool{Name: "hidden", InputSchema: json.RawMessage(noArguments), Meta: mcp.Meta{"ui": json.RawMessage(`{"visibility":["model"]}`)}},
		func(json.RawMessage) *mcp.CallToolResult { return text("hidden") })
	server.AddResource(s, mcp.Resource{URI: "gallery://note", Name: "note", MimeType: "text/plain"}, func(context.Context) (string, error) { return "Remember the milk.", nil })
	server.AddResource(s, mcp.Resource{URI: "ui://gallery/app.html", Name: "app", MimeType: "text/html;profile=mcp-app"}, func(context.Context) (string, error) { return appPage, nil })
	return s
}
