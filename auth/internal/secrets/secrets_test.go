package secrets_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/internal/must"
)

func TestCleanRemovesSentValuesAndKeepsTheRest(t *testing.T) {
	set := secrets.Set{Sent: []string{"c", "pin7", "pässwörter-42", "rt_0123456789abcdef"},
		Received: []string{"whole value"}}
	for text, want := range map[string]string{
		"the code c is not valid":                     "the code *** is not valid",
		"pin7 or xpin7x":                              "*** or x***x",
		"pssw\u00f6rter-42":                           "***",
		"pa: p%C3%A4ssw%c3%b6rter-42":                 "pa: ***",
		"token rt_01234567… is too old":               "token *** is too old",
		"token …456789ABCDEF is too old":              "token *** is too old",
		"token rt_\u200b0123\n456789abcdef":           "token ***",
		"token rt_0123 is too short to tell anything": "token rt_0123 is too short to tell anything",
		"a whole value, a whole":                      "a ***, a whole",
		"The refresh token is expired.":               "The refresh token is expired.",
		"":                                            "",
	} {
		must.CheckEqual(t, set.Clean(text, "***"), want, text)
	}
	text := "ünchanged"
	must.CheckThat(t, (secrets.Set{}).Clean(text, "***") == text, "a text is changed without secrets")
	err := set.CleanError(io.EOF)
	must.CheckEqual(t, err, io.EOF)
	err = set.CleanError(errors.Join(io.EOF, errors.New("pin7")))
	must.CheckThat(t, errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "pin7"), "%v", err)
}

// A long token and a long response take no noticeable time.
func TestCleanIsLinear(t *testing.T) {
	token := strings.Repeat("abcdefghijklmnop.0123456789", 2000)
	done := make(chan string, 1)
	go func() {
		done <- secrets.Set{Sent: []string{token, token + "x"}}.Clean(strings.Repeat("unrelated text ", 16<<10)+token,
			"***")
	}()
	select {
	case got := <-done:
		if !strings.HasSuffix(got, "text ***") {
			t.Error(got[max(0, len(got)-100):])
		}
	case <-time.After(time.Minute):
		t.Fatal("it takes a minute")
	}
}

func TestOfFindsTheSecretsOfARequest(t *testing.T) {
	req, err := http.NewRequest(http.MethodPost, "https://as.example/token",
		strings.NewReader("grant_type=refresh_token&refresh_token=r%2Bone&token=two&client_id=public"))
	must.Do(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("client", "three%20x")
	req.Header.Set("DPoP", "four.four")
	text := secrets.Of(req).Clean("r+one two three x three%20x four.four public refresh_token Y2xpZW50OnRocmVlJTIweA==",
		"-")
	must.CheckEqual(t, text, "- - - - - public refresh_token -")
	body := must.Get(io.ReadAll(req.Body))(t)
	must.CheckThat(t, strings.HasPrefix(string(body), "grant_type="), "the body was read: %q", body)
}

func TestAMemoryKnowsTheSecretsOfEarlierExchanges(t *testing.T) {
	var m secrets.Memory
	m.With(secrets.Set{Sent: []string{"refresh-token-1", "a"}})
	later := m.With(secrets.Set{Sent: []string{"the-code-of-a-login"}})
	text := "the refresh-token-1 was revoked before the-code-of-a-login"
	must.CheckEqual(t, later.Clean(text, "***"), "the *** was revoked before ***")
	for i := range 1000 {
		later = m.With(secrets.Set{Sent: []string{fmt.Sprintf("another-token-%d", i)}})
	}
	must.CheckThat(t, len(later.Sent) <= 65, "it remembers %d values", len(later.Sent))
}
