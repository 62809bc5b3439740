package form

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

func TestLineReturnsTheTextOrTheCancellation(t *testing.T) {
	for name, test := range map[string]struct {
		keys string
		text string
		err  error
	}{
		"entered":   {"http://127.0.0.1:1/callback?code=x\r", "http://127.0.0.1:1/callback?code=x", nil},
		"empty":     {"\r", "", nil},
		"interrupt": {"\x03", "", ErrInterrupted},
	} {
		screen := &Screen{In: strings.NewReader(test.keys), Out: io.Discard}
		text, err := screen.Line(t.Context(), "Paste it here:", false)
		must.CheckThat(t, err == test.err && text == test.text, "%s: %q, %v", name, text, err)
	}
}

func TestLineDoesNotEchoASecret(t *testing.T) {
	var out strings.Builder
	screen := &Screen{In: strings.NewReader("hunter2\r"), Out: &out}
	text, err := screen.Line(t.Context(), "Secret:", true)
	must.CheckThat(t, err == nil && text == "hunter2", "%q, %v", text, err)
	must.CheckThat(t, !strings.Contains(out.String(), "hunter"), "the secret is echoed: %q", out.String())
}

// The browser can finish a login while the user is asked to paste its address.
func TestLineReturnsWhenItsContextIsCancelled(t *testing.T) {
	in, stop := io.Pipe() // no input
	defer stop.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		<-asked
		cancel()
	}()
	_, err := (&Screen{In: in, Out: &firstWrite{asked}}).Line(ctx, "Paste it here:", false)
	must.CheckIs(t, err, context.Canceled)
}

// firstWrite is a writer that closes done at the first write.
type firstWrite struct{ done chan struct{} }

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.done != nil {
		close(w.done)
		w.done = nil
	}
	return len(p), nil
}

func TestChooseReturnsTheOptionOrTheCancellation(t *testing.T) {
	for name, test := range map[string]struct {
		keys   string
		chosen string
		err    error
	}{
		"initial":   {"\r", "us", nil},
		"next":      {"\x1b[B\r", "eu", nil},
		"interrupt": {"\x03", "", ErrInterrupted},
	} {
		screen := &Screen{In: strings.NewReader(test.keys), Out: io.Discard}
		chosen, err := screen.Choose(t.Context(), "Region", []string{"eu", "us"}, "us")
		must.CheckThat(t, err == test.err && chosen == test.chosen, "%s: %q, %v", name, chosen, err)
	}
}

func TestConsentWarnsAboutDeceptiveHosts(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/pay?id=1":        "",
		"http://127.0.0.1:8080/":              "",
		"http://localhost/":                   "",
		"https://xn--pple-43d.com/":           "Punycode",
		"https://login.XN--pple-43d.com/":     "Punycode",
		"https://аpple.com/":                  "а (U+0430)",
		"https://example.com/xn--path-is-not": "",
	} {
		u, err := parseAddress(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		got := strings.Join(warnings(u), "\n")
		must.CheckThat(t, (want != "" || got == "") && strings.Contains(got, want),
			"warnings for %s: %q, want %q", address, got, want)
	}
}

func TestConsentRejectsInvalidURLsWithoutAsking(t *testing.T) {
	for _, address := range []string{
		"", "example.com", "javascript:alert(1)", "file:///etc/passwd", "https://", "https:///path",
		"https://example.com/\u202egpj", "https://example.com/\x1b[2J", "https://example.com/a b",
		"https://example.com/%zz",
		"https://example.com@evil.example/", "http://example.com/",
	} {
		screen := &Screen{} // cannot ask
		_, err := screen.Consent(t.Context(), "server", &mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: address})
		var reported *jsonrpc.Error
		must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams,
			"%q: %v", address, err)
	}
}

// Rule H7: Consent shows the whole URL, highlights the host, and opens the page only if the user chooses to.
func TestPagesAreOpenedOnlyWithConsent(t *testing.T) {
	const address = "https://xn--pple-43d.com:8443/pay?id=1#x"
	for name, test := range map[string]struct {
		keys    string
		failure error
		opened  int
		action  mcp.ElicitAction
	}{
		"open":             {"\r", nil, 1, mcp.ElicitAccept},
		"cannot be opened": {"\r", errors.New("no display"), 1, mcp.ElicitAccept},
		"copies the URL":   {"j\r", nil, 0, mcp.ElicitAccept},
		"decline":          {"jj\r", nil, 0, mcp.ElicitDecline},
		"cancel":           {"jjj\r", nil, 0, mcp.ElicitCancel},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			opened := 0
			screen := &Screen{In: strings.NewReader(test.keys), Out: &out,
				Open: func(_ context.Context, got string) error {
					must.CheckThat(t, strings.Contains(out.String(), "/pay?id=1#x") && got == address,
						"opened %s after the output %q", got, out.String())
					opened++
					return test.failure
				}}
			result, err := screen.Consent(t.Context(), "server",
				&mcp.ElicitParams{Mode: mcp.ElicitModeURL, URL: address, Message: "Pay"})
			must.CheckThat(t, err == nil && result.Action == test.action && opened == test.opened,
				"%+v, %v, opened %d times", result, err, opened)
			for _, want := range []string{"server asks", "Pay",
				"https://\x1b[1;7mxn--pple-43d.com:8443\x1b[0m/pay?id=1#x", "Punycode"} {
				must.CheckThat(t, strings.Contains(out.String(), want),
					"output does not contain %q: %q", want, out.String())
			}
		})
	}
}

func TestInterruptIsNoAnswer(t *testing.T) {
	var out strings.Builder
	screen := &Screen{In: strings.NewReader("\x03"), Out: &out}
	result, err := screen.Consent(t.Context(), "server",
		&mcp.ElicitParams{URL: "https://example.com/"})
	must.CheckThat(t, err == ErrInterrupted, "a page: %+v, %v", result, err)
	for _, keys := range []string{"\x03", "\r\x03"} {
		screen.In = strings.NewReader(keys)
		requested := &mcp.ElicitParams{RequestedSchema: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
		result, err := screen.Fill(t.Context(), "server", requested)
		must.CheckThat(t, err == ErrInterrupted, "a form and the keys %q: %+v, %v", keys, result, err)
	}
}

func TestFillRejectsInvalidFormsWithoutAsking(t *testing.T) {
	_, err := (&Screen{}).Fill(t.Context(), "server", &mcp.ElicitParams{RequestedSchema: []byte(`{"type":"array"}`)})
	var reported *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams,
		"error is %v, want invalid params", err)
}

const everyKind = `{"type":"object","properties":{` + `"name":{"type":"string","minLength":2,"maxLength":4},` +
	`"mail":{"type":"string","format":"email"},` + `"seats":{"type":"integer","minimum":1,"maximum":9,"default":2},` +
	`"big":{"type":"integer","default":9007199254740993},` + `"tip":{"type":"number"},` +
	`"sure":{"type":"boolean","default":true},` + `"maybe":{"type":"boolean"},` +
	`"color":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"},` +
	`"size":{"type":"string","enum":["s","l"]},` +
	`"extras":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":2,"maxItems":2}` +
	`},"required":["name","size"]}`

// parseForm returns the questions of a form, in order and by name.
func parseForm(t *testing.T, raw string) (all []*question, by map[string]*question) {
	t.Helper()
	form, err := mcp.ParseElicitSchema([]byte(raw))
	must.Do(t, err)
	all, err = questionsOf(form)
	must.Do(t, err)
	by = make(map[string]*question)
	for _, q := range all {
		by[q.name] = q
		must.CheckThat(t, q.field() != nil, "question %s has no field", q.name)
	}
	return all, by
}

func TestDefaultsAreTheInitialAnswers(t *testing.T) {
	all, _ := parseForm(t, everyKind)
	want := `{"name":"","seats":2,"big":9007199254740993,"sure":true,"color":"g","size":"s"}`
	got := string(contentOf(all))
	must.CheckThat(t, got == want, "content is %s, want %s", got, want)
}

func TestAnswersAreValidContent(t *testing.T) {
	all, by := parseForm(t, everyKind)
	by["name"].text = "Adä\""
	by["mail"].text = "ada@example.com"
	by["seats"].text = "9"
	by["tip"].text = "1.50"
	by["sure"].checked = false
	by["maybe"].selected = 1
	by["color"].selected = 0
	by["size"].selected = 1
	by["extras"].multiple = []int{2, 0}
	for _, q := range all {
		if q.schema.Type == mcp.TypeArray {
			if err := q.checkMultiple(q.multiple); err != nil {
				t.Errorf("%s: %v", q.name, err)
			}
		} else if q.options == nil && q.schema.Type != mcp.TypeBoolean {
			if err := q.checkText(q.text); err != nil {
				t.Errorf("%s: %v", q.name, err)
			}
		}
	}
	got := contentOf(all)
	want := `{"name":"Adä\"","mail":"ada@example.com","seats":9,"big":9007199254740993,"tip":1.50,"sure":false,` +
		`"maybe":false,"color":"r","size":"l","extras":["a","c"]}`
	must.CheckThat(t, string(got) == want, "content is\n%s, want\n%s", got, want)
	compiled := must.Get(schema.Compile([]byte(everyKind)))(t)
	must.Check(t, compiled.Validate(got))
}

func TestInvalidAnswersAreRejected(t *testing.T) {
	_, by := parseForm(t, everyKind)
	for _, c := range []struct{ name, text, want string }{
		{"name", "", "an answer is required"},
		{"name", "A", "the answer has 1 characters; enter 2 to 4"},
		{"name", "äöüß!", "the answer has 5 characters"},
		{"mail", "Ada <ada@example.com>", "must be an e-mail address"},
		{"mail", "ada", "must be an e-mail address"},
		{"seats", "0", "enter 1 to 9"},
		{"seats", "10", "enter 1 to 9"},
		{"seats", "1.5", "must be a whole number"},
		{"seats", "1e0", "must be a whole number"},
		{"seats", "", "must be a number"},
		{"tip", "a", "must be a number"},
		{"tip", " 1", "must be a number"},
		{"tip", "0x1", "must be a number"},
		{"tip", "true", "must be a number"},
		{"tip", "1e999", "too large"},
	} {
		if err := by[c.name].checkText(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: checkText(%q) = %v, want %q", c.name, c.text, err, c.want)
		}
	}
	for _, chosen := range [][]int{{0}, {0, 1, 2}} {
		err := by["extras"].checkMultiple(chosen)
		must.CheckThat(t, err != nil && err.Error() == "choose exactly 2", "checkMultiple(%v) = %v", chosen, err)
	}
}

func TestFormatsAreChecked(t *testing.T) {
	for format, texts := range map[mcp.StringFormat][2][]string{
		mcp.FormatDate: {{"2028-02-29"}, {"2027-02-29", "29.2.2028", "2028-2-9"}},
		mcp.FormatDateTime: {{"2027-01-31T19:30:00Z", "2027-01-31T19:30:00.5+01:00"},
			{"2027-01-31", "2027-01-31 19:30"}},
		mcp.FormatURI:   {{"https://example.com/a", "urn:a:b"}, {"example.com", "https://a b/", "%"}},
		mcp.FormatEmail: {{"a@b"}, {"@b"}},
		"shoe-size":     {{"anything"}, nil},
	} {
		for _, text := range texts[0] {
			must.Check(t, CheckFormat(format, text), format, text)
		}
		for _, text := range texts[1] {
			must.CheckThat(t, CheckFormat(format, text) != nil, "format %s: %q is accepted", format, text)
		}
	}
}

func TestOptionalQuestionsNeedNoAnswer(t *testing.T) {
	_, by := parseForm(t, everyKind)
	for _, name := range []string{"mail", "tip"} {
		must.Check(t, by[name].checkText(""), name)
	}
	must.Check(t, by["extras"].checkMultiple(nil))
}

// The server replaces an omitted answer by the default, so an empty answer is sent.
func TestADeletedDefaultIsSentAsAnEmptyAnswer(t *testing.T) {
	all, by := parseForm(t,
		`{"type":"object","properties":{"note":{"type":"string","default":"hi"},"list":{"type":"array",`+
			`"items":{"type":"string","enum":["a"]},"default":["a"]}}}`)
	by["note"].text, by["list"].multiple = "", nil
	if got, want := string(contentOf(all)), `{"note":"","list":[]}`; got != want || by["note"].checkText("") != nil {
		t.Errorf("content is %s, want %s", got, want)
	}
}

func TestADefaultOfTheWrongTypeIsAnError(t *testing.T) {
	for _, property := range []string{`{"type":"string","default":1}`, `{"type":"integer","default":"many"}`,
		`{"type":"boolean","default":"yes"}`} {
		form, err := mcp.ParseElicitSchema([]byte(`{"type":"object","properties":{"p":` + property + `}}`))
		if err != nil {
			continue // already rejected
		}
		if _, err := questionsOf(form); err == nil {
			t.Errorf("property %s is accepted", property)
		}
	}
}

func TestHintsDescribeValidAnswers(t *testing.T) {
	_, by := parseForm(t, everyKind)
	var got []string
	for _, name := range []string{"name", "mail", "seats", "tip", "extras"} {
		got = append(got, by[name].hint())
	}
	want := []string{"2 to 4 characters", "an e-mail address", "a whole number · 1 to 9", "a number",
		"select with space or x · choose exactly 2"}
	must.CheckThat(t, slices.Equal(got, want), "hints are %q, want %q", got, want)
}

func TestTextsOfServersAreSanitised(t *testing.T) {
	_, by := parseForm(t,
		`{"type":"object","properties":{"p":{"type":"string","title":"a\u001b[2Jb","description":"c\nd",`+
			`"oneOf":[{"const":"x","title":"\u202ex"}]}}}`)
	q := by["p"]
	for _, text := range []string{q.title(), q.hint(), q.choices()[0].Key} {
		must.CheckThat(t, !strings.ContainsAny(text, "\x1b\n\u202e"), "%q is not sanitised", text)
	}
}

// At each height of the window, the view fits and has the title of the focused field. A terminal shows the end of a
// view that does not fit.
func TestTheTitleOfTheFocusedFieldIsShownAtEveryHeight(t *testing.T) {
	all, _ := parseForm(t, everyKind)
	for _, height := range []int{4, 5, 6, 7, 10, 16, 24, 45, 80} {
		var fields []huh.Field
		var titles []string
		for _, q := range all {
			fields, titles = append(fields, q.field()), append(titles, q.title())
		}
		w := &window{question: "server asks:\nwhy?", declines: true}
		f := newForm(w, append(fields, sendField("server", new(bool)))...)
		update := func(msg tea.Msg) {
			m, _ := f.Update(w.observe(nil, msg))
			f = m.(*huh.Form)
		}
		f.Init()
		update(tea.WindowSizeMsg{Width: 80, Height: height})
		for _, title := range append(titles, "Send the answers to server?") {
			view := ansi.Strip(f.View())
			must.CheckThat(t, height < 5 || strings.Contains(view, "why?") == (height >= 16 && height < 80) &&
				strings.Contains(view, "ctrl+d: decline"),
				"height %d: the view must say how to decline, and repeat the question if it does not fit:\n%s", height,
				view)
			if lines := strings.Count(view, "\n") + 1; lines > height || !strings.Contains(view, title) {
				t.Errorf("%d lines, without the title %q or too many of them:\n%s", height, title, view)
			}
			update(huh.NextField())
		}
	}
}

// Rule H6: the user sees the server and its question before an answer is sent, and can decline. The only choice of a
// form is sent when it is chosen.
func TestFormsCanBeDeclined(t *testing.T) {
	const choice = `"type":"string","enum":["no","once"]`
	for name, c := range map[string]struct{ properties, keys, want string }{
		"a choice":           {`"a":{` + choice + `}`, "j\r", `accept {"a":"once"}`},
		"a choice declined":  {`"a":{` + choice + `}`, "j\x04", `decline `},
		"a boolean":          {`"a":{"type":"boolean"}`, "y", `accept {"a":true}`},
		"a boolean declined": {`"a":{"type":"boolean"}`, "\x04", `decline `},
		"a text":             {`"a":{"type":"string"}`, "x\r\r", `accept {"a":"x"}`},
		"a text declined":    {`"a":{"type":"string"}`, "\x04", `decline `},
		"two choices":        {`"a":{` + choice + `},"b":{` + choice + `}`, "\r\r\r", `accept {"a":"no","b":"no"}`},
		"several choices":    {`"a":{"type":"array","items":{` + choice + `}}`, "x\r\r", `accept {"a":["no"]}`},
	} {
		var out strings.Builder
		screen := &Screen{In: strings.NewReader(c.keys), Out: &out}
		requested := `{"type":"object","properties":{` + c.properties + `},"required":["a"]}`
		if strings.Contains(c.properties, `"b"`) {
			requested = strings.Replace(requested, `["a"]`, `["a","b"]`, 1)
		}
		result, err := screen.Fill(t.Context(), "demo", &mcp.ElicitParams{Message: "Why?",
			RequestedSchema: []byte(requested)})
		must.CheckThat(t, err == nil && string(result.Action)+" "+string(result.Content) == c.want,
			"%s: %+v %v", name, result, err)
		must.CheckThat(t, strings.HasPrefix(out.String(), "\ndemo asks:\n\nWhy?\n"),
			"%s: the question does not come first: %q", name, out.String())
	}
}
