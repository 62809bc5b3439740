package replay

import (
	"net/http"

	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
)

// ordered returns the entries in the order in which the server has served them, as far as the responses tell.
// Clients send the DELETE request for a session while other requests of the session are in flight. A request for
// which the session was not found follows the response to the DELETE request. A DELETE request follows the
// responses that came before its own, and the beginnings of streams.
func ordered(entries []recording.Entry) []*recording.Entry {
	out := make([]*recording.Entry, 0, len(entries))
	responses := make(map[int64]int) // index by exchange
	for i := range entries {
		out = append(out, &entries[i])
		if entries[i].Response != nil {
			responses[entries[i].Exchange] = i
		}
	}
	after := make(map[int][]*recording.Entry) // requests to send after the entry with an index
	for i, e := range out {
		j, answered := 0, false
		if e.Request != nil && e.Request.Method == http.MethodDelete {
			j, answered = responses[e.Exchange]
		}
		if !answered {
			continue
		}
		last := i // the last response before that of the DELETE request
		var late []*recording.Entry
		for _, other := range out[:j] {
			response, ok := responses[other.Exchange]
			switch {
			case !ok || other.Exchange == e.Exchange || other.Request == nil:
			case response > i && out[response].Response.Status == http.StatusNotFound:
				late = append(late, other)
			case response > i && response < j, response > j && other.Request.Method == http.MethodGet:
				last = max(last, response)
			}
		}
		if last > i {
			after[last] = append(after[last], e)
		}
		end := max(last, j)
		if last > j {
			after[last] = append(after[last], out[j])
		}
		for _, other := range late {
			after[end] = append(after[end], other)
			if response := responses[other.Exchange]; response < end {
				after[end] = append(after[end], out[response])
			}
		}
	}
	moved := make(map[*recording.Entry]bool)
	for _, list := range after {
		for _, e := range list {
			moved[e] = true
		}
	}
	var result []*recording.Entry
	for i, e := range out {
		if !moved[e] {
			result = append(result, e)
		}
		result = append(result, after[i]...)
	}
	return result
}
