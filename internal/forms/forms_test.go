package forms_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/forms"
	"github.com/parley-mcp/parley/internal/must"
)

// Answers are completed with the defaults of the form. An answer that does not match the form is
// rejected with the reason.
func TestAnswersAreCompletedAndChecked(t *testing.T) {
	form := must.Get(forms.Parse(json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","minLength":2},` +
		`"day":{"type":"string","enum":["mon","tue"],"default":"tue"},"age":{"type":"integer"}},"required":["name"]}`)))(t)
	for content, want := range map[string]string{
		` {"name":"Ada"} `:                     `{"name":"Ada","day":"tue"}`,
		`{"name":"Ada","day":"mon","age":36}`:  `{"name":"Ada","day":"mon","age":36}`,
		"{\"name\":\"A\xff\",\"day\":\"mon\"}": "{\"name\":\"A\ufffd\",\"day\":\"mon\"}",
		``:                                     `the answer does not match the form: `,
		`null`:                                 `the answer does not match the form: `,
		`{}`:                                   `the answer does not match the form: `,
		`{"name":"A"}`:                         `the answer does not match the form: `,
		`{"name":"Ada","day":"wed"}`:           `the answer does not match the form: `,
		`{"name":"Ada","age":1.5}`:             `the answer does not match the form: `,
		`{"name":"Ada","day":null}`:            `the answer does not match the form: `,
		`["Ada"]`:                              `the answer does not match the form: it must be an object`,
		`7`:                                    `the answer does not match the form: it must be an object`,
		`{"name":`:                             `the answer to the form cannot be read: `,
		`{"name":"Ada"}{}`:                     `the answer to the form cannot be read: `,
	} {
		raw := json.RawMessage(content)
		if content == "" {
			raw = nil
		}
		got, err := form.Complete(raw)
		if err != nil {
			must.CheckThat(t, strings.HasPrefix(want, "the ") && strings.HasPrefix(err.Error(), want),
				"%q: %v, want %s", content, err, want)
		} else if string(got) != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
}
