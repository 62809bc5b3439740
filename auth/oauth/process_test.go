package oauth_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/internal/must"
)

// childVariable makes this binary run refreshInChild. Its value is the path of the store
// and the URL of the server.
const childVariable = "PARLEY_OAUTH_TEST_CHILD"

func storeKey() []byte { return bytes.Repeat([]byte("k"), 32) }

// refreshInChild prints the Authorization header for a server.
func refreshInChild(config string) int {
	path, server, _ := strings.Cut(config, "\n")
	store, err := tokenstore.OpenFile(path, storeKey())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c := &oauth.Client{Store: store, Logger: slog.New(slog.DiscardHandler)}
	header, err := authorize(c, server)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(header)
	return 0
}

func authorize(c *oauth.Client, server string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, server, nil)
	if err != nil {
		return "", err
	}
	err = c.Authorize(req, server)
	return req.Header.Get("Authorization"), err
}

func fileStore(t testing.TB) (*tokenstore.File, string) {
	path := filepath.Join(t.TempDir(), "tokens")
	store := must.Get(tokenstore.OpenFile(path, storeKey()))(t)
	return store, path
}

// expired returns a client with an expired token.
func (w *environment) expired(store oauth.TokenStore) *oauth.Client {
	setLifetime := func(seconds int) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Lifetime = seconds
	}
	setLifetime(0)
	c := w.Client()
	c.Store = store
	must.Do(w.t, c.Login(context.Background(), w.URL()))
	setLifetime(3600)
	return c
}

func TestConcurrentRequestsShareOneRefresh(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			c := w.expired(store)
			headers := make([]string, 100)
			var all sync.WaitGroup
			for i := range headers {
				all.Go(func() {
					var err error
					if headers[i], err = authorize(c, w.URL()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for _, h := range headers {
				must.That(t, h == headers[0] && strings.HasPrefix(h, "Bearer "+oauthtest.Secret),
					"different headers: %q and %q", headers[0], h)
			}
			n := w.Count("as POST /token")
			must.Equal(t, n, 2, "token requests", n-1)
			if got := w.Forms[1]; got.Get("grant_type") != "refresh_token" || got.Get("resource") != w.URL() {
				t.Fatalf("O2: refresh request %v", got)
			}
		})
	}
}

// A refresh invalidates the old refresh token. Even if the request is cancelled, the
// new one must be stored.
func TestRefreshIsStoredAfterCancellation(t *testing.T) {
	w := newEnvironment(t)
	c := w.expired(nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.OnToken = func(form url.Values, _ map[string]any) {
		if form.Get("grant_type") == "refresh_token" {
			cancel()
			<-time.After(100 * time.Millisecond) // a client without the grace period would return by now
		}
	}
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, w.URL(), nil))(t)
	_ = c.Authorize(req, w.URL())
	header, err := authorize(c, w.URL())
	must.CheckThat(t, err == nil && strings.HasPrefix(header, "Bearer "+oauthtest.Secret),
		"next request: %q, %v", header, err)
	n := w.Count("as POST /token")
	must.CheckEqual(t, n, 2, "token requests", n-1)
}

// A cancelled request does not wait for a refresh that never ends.
func TestCancellationEndsARefresh(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	c := w.expired(nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.ServeAS = oauthtest.Only("/token", func(rw http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, w.URL(), nil))(t)
	start := time.Now()
	must.CheckIs(t, c.Authorize(req, w.URL()), context.Canceled)
	took := time.Since(start)
	must.CheckThat(t, took <= 10*time.Second, "it took %v", took)
}

func stores(t *testing.T) map[string]oauth.TokenStore {
	file, _ := fileStore(t)
	return map[string]oauth.TokenStore{"memory": &tokenstore.Memory{}, "file": file}
}

func TestProcessesShareOneRefresh(t *testing.T) {
	w := newEnvironment(t)
	store, path := fileStore(t)
	w.expired(store)
	outputs := make([]string, 3)
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+path+"\n"+w.URL())
			out, err := cmd.CombinedOutput()
			must.Check(t, err, out)
			outputs[i] = string(out)
		})
	}
	all.Wait()
	must.That(t, outputs[0] == outputs[1] && outputs[0] == outputs[2] &&
		strings.HasPrefix(outputs[0], "Bearer "+oauthtest.Secret), "headers of the processes: %q", outputs)
	n := w.Count("as POST /token")
	must.Equal(t, n, 2, "token requests", n-1)
}

// A process that is killed during a refresh does not keep the next process from
// refreshing.
func TestKilledProcessDoesNotPreventARefresh(t *testing.T) {
	w := newEnvironment(t)
	var pause atomic.Bool
	refreshing := make(chan struct{})
	w.ServeAS = func(_ http.ResponseWriter, r *http.Request) (served bool) {
		if r.URL.Path != "/token" || !pause.CompareAndSwap(true, false) {
			return false
		}
		close(refreshing)
		<-r.Context().Done()
		return true
	}
	store, path := fileStore(t)
	c := w.expired(store)
	pause.Store(true)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+path+"\n"+w.URL())
	must.Do(t, cmd.Start())
	<-refreshing
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	header := must.Get(authorize(c, w.URL()))(t)
	must.CheckThat(t, strings.HasPrefix(header, "Bearer "+oauthtest.Secret), "next process: %q", header)
}

// Rule O14: only the user can read the file, and it is encrypted.
func TestTokenFileIsEncrypted(t *testing.T) {
	w := newEnvironment(t)
	store, path := fileStore(t)
	c := w.Client()
	c.Store = store
	must.Get(w.Dial(c, ""))(t)
	unlock := must.Get(store.Lock(t.Context(), "key"))(t)
	defer unlock()
	files, err := filepath.Glob(path + "*")
	must.That(t, err == nil && len(files) >= 2, "%v %v", files, err)
	for _, name := range files {
		info := must.Get(os.Stat(name))(t)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		content := must.Get(os.ReadFile(name))(t)
		must.CheckThat(t, !bytes.Contains(content, []byte(oauthtest.Secret)) &&
			!bytes.Contains(content, []byte("127.0.0.1")), "%s is not encrypted: %q", name, content)
	}
}

func TestLogoutRevokesTheToken(t *testing.T) {
	w := newEnvironment(t)
	store, _ := fileStore(t)
	c := w.Client()
	c.Store = store
	must.Do(t, c.Login(t.Context(), w.URL(), "tools"))
	must.Do(t, c.Logout(t.Context(), w.URL()))
	h, err := authorize(c, w.URL())
	must.That(t, h == "" && err == nil, "after the logout: %q, %v", h, err)
	must.Equal(t, w.Count("as POST /revoke"), 1)
}
