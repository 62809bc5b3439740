package replay

import (
	"slices"
	"strings"
	"testing"
)

func TestRequestsAreOrderedAroundTheEndOfTheirSession(t *testing.T) {
	messages := map[string]string{
		"response":   "",
		"result":     `,"message":{"jsonrpc":"2.0","id":1,"result":{}}`,
		"tool-error": `,"message":{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}`,
	}
	for recorded, want := range map[string]string{
		// The session was not found: the request follows the response to the DELETE request.
		"DELETE 1, GET 2, response 1 204, response 2 404":                        "DELETE 1, response 1 204, GET 2, response 2 404",
		"GET 2, DELETE 1, response 1 204, response 2 404":                        "DELETE 1, response 1 204, GET 2, response 2 404",
		"GET 2, DELETE 1, response 2 404, response 1 204":                        "DELETE 1, response 1 204, GET 2, response 2 404",
		"GET 2, DELETE 1, response 2 404, GET 3, response 1 204, response 3 200": "GET 3, response 3 200, DELETE 1, response 1 204, GET 2, response 2 404",
		// The response came before that of the DELETE request, which follows it.
		"DELETE 1, GET 2, response 2 200, response 1 204": "GET 2, response 2 200, DELETE 1, response 1 204",
		"GET 2, DELETE 1, response 2 200, response 1 204": "GET 2, response 2 200, DELETE 1, response 1 204",
		"GET 2, DELETE 1, response 1 204, response 2 200": "GET 2, response 2 200, DELETE 1, response 1 204",
		"POST 2, DELETE 1, response 1 204, result 2 200":  "POST 2, result 2 200, DELETE 1, response 1 204",
		// The end of a stream follows the DELETE request that is the reason.
		"GET 3, response 3 200, POST 2, DELETE 1, end 3, response 1 204, result 2 200": "GET 3, response 3 200, POST 2, result 2 200, DELETE 1, end 3, response 1 204",
		// The end of the session may have ended the call.
		"POST 2, DELETE 1, response 1 204, response 2 200":   "POST 2, DELETE 1, response 1 204, response 2 200",
		"POST 2, DELETE 1, response 1 204, tool-error 2 200": "POST 2, DELETE 1, response 1 204, tool-error 2 200",
		// Nothing is in flight.
		"POST 2, response 2 404, DELETE 1, response 1 204, GET 3, response 3 404": "POST 2, response 2 404, DELETE 1, response 1 204, GET 3, response 3 404",
		"DELETE 1": "DELETE 1",
		// Each session has its own end.
		"DELETE 1 a, DELETE 2 b, GET 3 b, response 1 204, response 2 204, response 3 404": "DELETE 1 a, DELETE 2 b, response 1 204, response 2 204, GET 3 b, response 3 404",
		"POST 3 b, DELETE 1 a, result 3 200, response 1 204":                              "POST 3 b, DELETE 1 a, result 3 200, response 1 204",
		"DELETE 1 a, DELETE 2 a, response 1 204, response 2 404":                          "DELETE 1 a, response 1 204, DELETE 2 a, response 2 404",
	} {
		var lines []string
		for text := range strings.SplitSeq(recorded, ", ") {
			words := strings.Fields(text)
			if words[0] == "end" {
				lines = append(lines, `{"from":"server","wire":"http","exchange":`+words[1]+`,"end":true}`)
			} else if message, isResponse := messages[words[0]]; isResponse {
				lines = append(lines, `{"from":"server","wire":"http","exchange":`+words[1]+`,"response":{"status":`+words[2]+`}`+message+`}`)
			} else {
				session := strings.Join(words[2:], "")
				lines = append(lines, `{"from":"client","wire":"http","exchange":`+words[1]+`,"request":{"method":"`+words[0]+`","headers":{"Mcp-Session-Id":["`+session+`"]}}}`)
			}
		}
		all := entries(t, lines...)
		texts := strings.Split(recorded, ", ")
		var got []string
		for _, e := range ordered(all) {
			got = append(got, texts[e.Line-2])
		}
		if !slices.Equal(got, strings.Split(want, ", ")) {
			t.Errorf("%s: %q, want %s", recorded, got, want)
		}
	}
}
