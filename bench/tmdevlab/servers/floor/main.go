// Command floor serves the tools with as little of the protocol as the load accepts: net/http and encoding/json by
// hand, without validation, sessions or dispatch. No library can cost less.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/parley-mcp/parley/bench/tmdevlab/shop"
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

type response struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type result struct {
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	Type       string          `json:"resultType,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func main() {
	w, _ := shop.Parse("floor")
	object := json.RawMessage(`{"type":"object"}`)
	list := map[string]any{"resultType": "complete", "tools": []tool{
		{"search_products", shop.SearchText, object},
		{"get_user_cart", shop.CartText, object},
		{"checkout", shop.CheckoutText, object},
	}}
	hello := json.RawMessage(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},` +
		`"serverInfo":{"name":"floor","version":"1"}}`)
	shop.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			rw.WriteHeader(http.StatusNoContent)
			return
		}
		var m request
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		if m.ID == nil {
			rw.WriteHeader(http.StatusAccepted)
			return
		}
		out := response{"2.0", m.ID, nil}
		var err error
		switch {
		case m.Method == "initialize":
			rw.Header().Set("Mcp-Session-Id", rand.Text())
			out.Result = hello
		case m.Method == "tools/list":
			out.Result = list
		case m.Params.Name == "search_products":
			out.Result, err = call(r.Context(), m.Params.Arguments, w.Search)
		case m.Params.Name == "get_user_cart":
			out.Result, err = call(r.Context(), m.Params.Arguments, w.Cart)
		case m.Params.Name == "checkout":
			out.Result, err = call(r.Context(), m.Params.Arguments, w.Checkout)
		}
		b, encodeErr := json.Marshal(out)
		if err != nil || encodeErr != nil {
			http.Error(rw, "failed", http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", strconv.Itoa(len(b)))
		rw.Write(b)
	}))
}

func call[In, Out any](
	ctx context.Context, arguments json.RawMessage, do func(context.Context, In) (Out, error),
) (any, error) {
	var in In
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	out, err := do(ctx, in)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(out)
	return result{[]block{{"text", string(b)}}, b, "complete"}, err
}
