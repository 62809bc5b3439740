package inspect

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoginsHaveTheClientOfTheUser(t *testing.T) {
	one := demoServer(t)
	received := make(chan LoginOptions, 1)
	one.Login = func(_ context.Context, o LoginOptions) error {
		o.Open, o.Step = nil, nil
		received <- o
		return errors.New("not here")
	}
	p := start(t, one)
	for body, want := range map[string]string{
		`{"clientSecret":"s"}`:             "a client secret requires a client ID",
		`{"clientId":"mine","port":-1}`:    "the port must be from 1 to 65535",
		`{"clientId":"mine","port":65536}`: "the port must be from 1 to 65535",
	} {
		if status, got := p.do(http.MethodPost, "/api/servers/demo/login", []byte(body)); status < http.StatusBadRequest || !strings.Contains(string(got), want) {
			t.Errorf("%s: got %d %s, want %s", body, status, got, want)
		}
	}
	if status, got := p.do(http.MethodPost, "/api/servers/demo/login", []byte(`{"scopes":"a  b","clientId":"mine","clientSecret":"s","port":8080}`)); status != http.StatusOK {
		t.Fatalf("got %d %s", status, got)
	}
	want := LoginOptions{Scopes: []string{"a", "b"}, ClientID: "mine", ClientSecret: "s", Port: 8080}
	if diff := cmp.Diff(want, <-received); diff != "" {
		t.Error(diff)
	}
}
