//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// kind is something that is timed.
type kind int

const (
	initialize kind = iota
	initialized
	searchProducts
	getUserCart
	checkout
	toolsList
	end       // DELETE
	iteration // all requests of a user together, without the pause
	kinds
)

var kindNames = [kinds]string{"initialize", "initialized", "search_products", "get_user_cart", "checkout", "tools/list",
	"DELETE", "iteration"}

// measured are the requests of an iteration.
var measured = []kind{searchProducts, getUserCart, checkout, toolsList}

// counts reports whether the published benchmark counts k as a request: neither notifications nor DELETE.
func (k kind) counts() bool { return k == initialize || slices.Contains(measured, k) }

// record contains what one user has seen in one phase.
type record struct {
	times  [kinds][]time.Duration
	errors int    // counted requests without the right result
	bad    int    // HTTP requests that failed or had a status of 400 or more
	sample string // the first error
}

func (r *record) fail(format string, args ...any) {
	if r.sample == "" {
		r.sample = fmt.Sprintf(format, args...)
	}
}

// load is the state that all users share.
type load struct {
	addr   string
	modern bool         // 2026-07-28, otherwise sessions
	think  atomic.Int64 // pause after an iteration, in nanoseconds
	phase  atomic.Int32 // index of the record to write, or discard, or stop
	users  []*user
}

const (
	discard = -1
	stop    = -2
)

// user does what a virtual user of the published script does.
type user struct {
	*load
	conn
	records  [2]record
	requests [kinds][]byte // bodies
	buf      []byte
}

func newUser(l *load, number int) *user {
	u := &user{load: l, conn: conn{addr: l.addr}}
	id := fmt.Sprintf("user-%05d", number%1000)
	meta := ""
	if l.modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	call := func(k kind, arguments string) {
		u.requests[k] = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"method":"tools/call",`+
			`"params":{"name":"%s","arguments":%s%s}}`, kindNames[k], arguments, meta)
	}
	call(searchProducts, `{"category":"Electronics","min_price":50,"max_price":500,"limit":10}`)
	call(getUserCart, `{"user_id":"`+id+`"}`)
	call(checkout, `{"user_id":"`+id+`","items":[{"product_id":42,"quantity":2},{"product_id":1337,"quantity":1}]}`)
	u.requests[toolsList] = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{%s}}`,
		strings.TrimPrefix(meta, ","))
	u.requests[initialize] = []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
		`"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"bench","version":"1.0"}}}`)
	u.requests[initialized] = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return u
}

// run repeats iterations until the phase is stop.
func (u *user) run() {
	defer u.close()
	for u.phase.Load() != stop {
		u.beginIteration()
		start := time.Now()
		for _, k := range measured {
			if u.modern {
				u.send(k, "")
			} else {
				u.session(k)
			}
		}
		u.note(iteration, time.Since(start))
		time.Sleep(time.Duration(u.think.Load()))
	}
}

// session initializes a session, sends one request in it, and deletes the session if the server has given it an id.
func (u *user) session(k kind) {
	id := u.send(initialize, "")
	u.send(initialized, id)
	u.send(k, id)
	if id != "" {
		u.send(end, id)
	}
}

// send sends a request, verifies the response, and returns its session id.
func (u *user) send(k kind, session string) string {
	request := u.request(k, session)
	start := time.Now()
	r, err := u.do(request)
	took := time.Since(start)
	rec := u.note(k, took)
	if rec == nil {
		rec = new(record)
	}
	if err != nil || r.status >= 400 {
		rec.bad++
		rec.fail("%s: status %d: %v: %.200s", kindNames[k], r.status, err, r.body)
	}
	if !k.counts() {
		return ""
	}
	if err == nil {
		err = verify(k, r.body)
	}
	if err != nil {
		rec.errors++
		rec.fail("%s: status %d: %v: %.300s", kindNames[k], r.status, err, r.body)
	}
	return r.session
}

// note adds a time to the record of the current phase, and returns the record, or nil between phases.
func (u *user) note(k kind, took time.Duration) *record {
	p := u.phase.Load()
	if p < 0 {
		return nil
	}
	r := &u.records[p]
	r.times[k] = append(r.times[k], took)
	return r
}

// request returns the bytes of an HTTP request. They are valid until the next call.
func (u *user) request(k kind, session string) []byte {
	b := u.buf[:0]
	if k == end {
		b = append(b, "DELETE /mcp HTTP/1.1\r\nHost: "...)
		b = append(b, u.load.addr...)
	} else {
		b = append(b, "POST /mcp HTTP/1.1\r\nHost: "...)
		b = append(b, u.load.addr...)
		b = append(b, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream"...)
	}
	if session != "" {
		b = append(b, "\r\nMcp-Session-Id: "...)
		b = append(b, session...)
	}
	if u.modern {
		b = append(b, "\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: "...)
		if k == toolsList {
			b = append(b, "tools/list"...)
		} else {
			b = append(b, "tools/call\r\nMcp-Name: "...)
			b = append(b, kindNames[k]...)
		}
	}
	if k != end {
		b = append(b, "\r\nContent-Length: "...)
		b = strconv.AppendInt(b, int64(len(u.requests[k])), 10)
	}
	b = append(b, "\r\n\r\n"...)
	b = append(b, u.requests[k]...)
	u.buf = b
	return b
}

// verify checks a response as the published script does.
func verify(k kind, body []byte) error {
	var m struct {
		Result *struct {
			Version string `json:"protocolVersion"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Tools []json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(message(body), &m); err != nil {
		return err
	}
	ok := false
	switch r := m.Result; {
	case r == nil:
	case k == initialize:
		ok = r.Version != ""
	case k == toolsList:
		ok = len(r.Tools) == 3
	case len(r.Content) == 0:
	default:
		var d struct {
			Total    float64           `json:"total"`
			Found    int               `json:"total_found"`
			Products []json.RawMessage `json:"products"`
			Popular  []json.RawMessage `json:"top10_popular_ids"`
			UserID   string            `json:"user_id"`
			Cart     struct {
				Items []json.RawMessage `json:"items"`
			} `json:"cart"`
			History []json.RawMessage `json:"recent_history"`
			Status  string            `json:"status"`
			Count   int               `json:"items_count"`
		}
		if err := json.Unmarshal([]byte(r.Content[0].Text), &d); err != nil {
			return err
		}
		switch k {
		case searchProducts:
			ok = d.Found == 2251 && len(d.Products) == 10 && len(d.Popular) == 10
		case getUserCart:
			ok = d.UserID != "" && len(d.Cart.Items) >= 1 && len(d.History) == 5
		case checkout:
			ok = d.Status == "confirmed" && d.Total > 0 && d.Count == 2
		}
	}
	if !ok {
		return errors.New("wrong result")
	}
	return nil
}
