package inspect

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// maxPage is the size of the files of the page, compressed, in bytes.
const maxPage = 400 << 10

func TestPageIsSmall(t *testing.T) {
	size := int64(0)
	err := fs.WalkDir(dist, "dist", func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size > maxPage || size < 10<<10 {
		t.Errorf("the page has %d bytes, the limit is %d: %v", size, maxPage, err)
	}
}

func TestLoginsHaveTheClientOfTheUser(t *testing.T) {
	one := demoServer(t)
	received := make(chan LoginOptions, 1)
	one.Login = func(_ context.Context, o LoginOptions) error {
		o.Open, o.Step = nil, nil
		received <- o
		return errors.New("not here")
	}
	p := start(t, one)
	if status, got := p.do(http.MethodPost, "/api/servers/demo/login",
		[]byte(`{"clientSecret":"s"}`)); status < http.StatusBadRequest ||
		!strings.Contains(string(got), "a client secret requires a client ID") {
		t.Errorf("without a client ID: got %d %s", status, got)
	}
	if status, got := p.do(http.MethodPost, "/api/servers/demo/login",
		[]byte(`{"scopes":"a  b","clientId":"mine","clientSecret":"s",`+
			`"redirectUri":"http://localhost:8080/x"}`)); status != http.StatusOK {
		t.Fatalf("got %d %s", status, got)
	}
	want := LoginOptions{Scopes: []string{"a", "b"}, ClientID: "mine", ClientSecret: "s",
		RedirectURI: "http://localhost:8080/x"}
	if diff := cmp.Diff(want, <-received); diff != "" {
		t.Error(diff)
	}
}
