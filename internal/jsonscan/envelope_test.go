package jsonscan_test

import (
	"fmt"
	"strings"
	"testing"

	"encoding/json"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/must"
)

// The id of a message is found wherever it is, in pieces of any size.
func TestEnvelopeFindsTheID(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"s":"x"}}`:        "7 request",
		`{"method":"m","params":{"id":8,"a":[{"id":9}]},"id":7}`:          "7 request", // as several SDKs write it
		" {\n\"params\" : {} ,\t\"id\" : \"a}\\\"b\" , \"method\":\"m\"}": `"a}\"b" request`,
		`{"id":"7","result":{"id":1}}`:                                    `"7" response`,
		`{"error":{"code":1,"message":"\\"},"id":-7}`:                     "-7 response",
		`{"id":7,"result":{"s":"cut`:                                      "7 response",
		`{"method":"m","params":{"id":1}}`:                                " notification",
		`{"id":null,"method":"m"}`:                                        "null request",
		`{"id":1.0,"method":"m"}`:                                         "1.0 request",
		`{"id":{"a":1},"method":"m"}`:                                     " request",
		`{"id":1,"id":2,"method":"m"}`:                                    " none",
		`{"id":1,"method":"m","result":{}}`:                               " none",
		`{"id":` + strings.Repeat("1", 2000) + `,"method":"m"}`:           " none",
		`{"x` + strings.Repeat("y", 2000) + `":0,"id":1,"method":"m"}`:    "1 request",
		`[{"id":1,"method":"m"}]`:                                         " none",
		`"id":1,"method":"m"`:                                             " none",
		`{"ID":1,"method":"m"}`:                                           " notification",
		"":                                                                " none",
	} {
		for _, size := range []int{1, 3, len(message) + 1} {
			var e jsonscan.Envelope
			for i := 0; i < len(message); i += size {
				e.Write([]byte(message[i:min(i+size, len(message))]))
			}
			id, request, response := e.ID()
			must.CheckEqual(t, e.IsNotification(), want == " notification", message)
			want := strings.Replace(want, "notification", "none", 1)
			kind := map[[2]bool]string{{false, false}: "none", {true, false}: "request", {false, true}: "response"}[[2]bool{
				request, response}]
			must.CheckEqual(t, fmt.Sprintf("%s %s", id, kind), want, message, size)
		}
	}
}

// encoding/json decodes a key into a field whose name it equals or is a variant
// of.
func TestVariantsAreThoseOfEncodingJSON(t *testing.T) {
	for _, spelling := range []string{"tasks", "Tasks", "TASKS", "tasKs", "ta\u017fks", "ta\u017f\u212as", "tas\u212a\u017f",
		"\u212aeys", "tasksx", "task", ""} {
		var lenient struct {
			V *int `json:"tasks"`
		}
		must.Do(t, json.Unmarshal([]byte(`{"`+spelling+`":1}`), &lenient))
		must.CheckEqual(t, jsonscan.IsVariant(spelling, []string{"id", "tasks"}), lenient.V != nil && spelling != "tasks",
			spelling)
	}
}
