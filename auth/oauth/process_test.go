package oauth_test

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/internal/must"
)

// childVariable makes this binary run refreshInChild. Its value is the path of the store
// and the URL of the server.
const childVariable = "PARLEY_OAUTH_TEST_CHILD"

func storeKey() []byte { return bytes.Repeat([]byte("k"), 32) }

// refreshInChild prints the Authorization header for a server.
func refreshInChild(config string) int {
	path, server, _ := strings.Cut(config, "\n")
	store, err := oauth.NewFileStore(path, storeKey())
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

func fileStore(t testing.TB) (*oauth.FileStore, string) {
	path := filepath.Join(t.TempDir(), "tokens")
	store := must.Get(oauth.NewFileStore(path, storeKey()))(t)
	return store, path
}

// expired returns a client whose token has expired.
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
				if h != headers[0] || !strings.HasPrefix(h, "Bearer "+oauthtest.Secret) {
					t.Fatalf("different headers: %q and %q", headers[0], h)
				}
			}
			if n := w.Count("as POST /token"); n != 2 {
				t.Fatalf("%d token requests, %d of them refreshes", n, n-1)
			}
			if got := w.Forms[1]; got.Get("grant_type") != "refresh_token" || got.Get("resource") != w.URL() {
				t.Fatalf("O2: refresh request %v", got)
			}
		})
	}
}

// A refresh invalidates the old refresh token. If the request is cancelled, the new one
// must be stored nevertheless.
func TestRefreshIsStoredAfterCancellation(t *testing.T) {
	w := newEnvironment(t)
	c := w.expired(nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.OnToken = func(form url.Values, _ map[string]any) {
		if form.Get("grant_type") == "refresh_token" {
			cancel()
			<-time.After(100 * time.Millisecond) // a client that ignores the grace period returns meanwhile
		}
	}
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, w.URL(), nil))(t)
	_ = c.Authorize(req, w.URL())
	header, err := authorize(c, w.URL())
	if err != nil || !strings.HasPrefix(header, "Bearer "+oauthtest.Secret) {
		t.Errorf("next request: %q, %v", header, err)
	}
	if n := w.Count("as POST /token"); n != 2 {
		t.Errorf("%d token requests, %d of them refreshes", n, n-1)
	}
}

// A cancelled request does not wait for a refresh without end.
func TestCancellationEndsARefresh(t *testing.T) {
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
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func stores(t *testing.T) map[string]oauth.TokenStore {
	file, _ := fileStore(t)
	return map[string]oauth.TokenStore{"memory": &oauth.MemoryStore{}, "file": file}
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
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			outputs[i] = string(out)
		})
	}
	all.Wait()
	if outputs[0] != outputs[1] || outputs[0] != outputs[2] || !strings.HasPrefix(outputs[0], "Bearer "+oauthtest.Secret) {
		t.Fatalf("headers of the processes: %q", outputs)
	}
	if n := w.Count("as POST /token"); n != 2 {
		t.Fatalf("%d token requests, %d of them refreshes", n, n-1)
	}
}

// A process that is killed during a refresh does not prevent that of the next process.
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
	if header, err := authorize(c, w.URL()); err != nil || !strings.HasPrefix(header, "Bearer "+oauthtest.Secret) {
		t.Errorf("next process: %q, %v", header, err)
	}
}

// Rule O14: only the user can read the file, it is encrypted, and its keys can be rotated.
func TestTokenFileIsEncrypted(t *testing.T) {
	w := newEnvironment(t)
	store, path := fileStore(t)
	c := w.Client()
	c.Store = store
	must.Get(w.Dial(c, ""))(t)
	unlock := must.Get(store.Lock(t.Context(), "key"))(t)
	defer unlock()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		info := must.Get(os.Stat(name))(t)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		content := must.Get(os.ReadFile(name))(t)
		if bytes.Contains(content, []byte(oauthtest.Secret)) || bytes.Contains(content, []byte("127.0.0.1")) {
			t.Errorf("%s is not encrypted: %q", name, content)
		}
	}
	const key = "server x"
	other := bytes.Repeat([]byte("o"), 32)
	otherKey := must.Get(oauth.NewFileStore(path, other))(t)
	if _, err := otherKey.Load(t.Context(), key); !errors.Is(err, oauth.ErrDamagedStore) {
		t.Errorf("Load with another key: %v", err)
	}
	must.CheckIs(t, otherKey.Save(t.Context(), key, []byte("x")), oauth.ErrDamagedStore)
	rotating := must.Get(oauth.NewFileStore(path, other, storeKey()))(t)
	must.Do(t, rotating.Save(t.Context(), key, []byte("value")))
	must.CheckEqual(t, string(must.Get(otherKey.Load(t.Context(), key))(t)), "value")
}

// Save fails if the file would become too large, and keeps the other values.
func TestFullTokenFileKeepsItsValues(t *testing.T) {
	store, _ := fileStore(t)
	oauth.SetMaxFileSize(store, 64<<10)
	value := bytes.Repeat([]byte("v"), 8<<10)
	full, saved := error(nil), 0
	for ; full == nil && saved < 8; saved++ {
		full = store.Save(t.Context(), fmt.Sprint("server ", saved), value)
	}
	if full == nil || errors.Is(full, oauth.ErrDamagedStore) || saved < 2 {
		t.Fatalf("after %d values of 8 KiB: %v", saved, full)
	}
	if v, err := store.Load(t.Context(), "server 0"); err != nil || !bytes.Equal(v, value) {
		t.Fatalf("the first value has %d bytes, %v", len(v), err)
	}
	must.Do(t, store.Save(t.Context(), "server 0", nil))
	must.Do(t, store.Save(t.Context(), "server x", value))
}

// The context ends the wait for a file that another process has locked.
func TestContextEndsTheWaitForALockedFile(t *testing.T) {
	store, path := fileStore(t)
	release := must.Get(atomicfile.Lock(t.Context(), path+".lock"))(t)
	first := waitObserver{t.Context(), make(chan struct{}, 2)}
	loaded := make(chan error, 1)
	go func() {
		_, err := store.Load(first, "server x")
		loaded <- err
	}()
	<-first.called // Load has locked the store
	<-first.called // and waits for the file
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	must.CheckIs(t, store.Save(ctx, "server y", []byte("v")), cause)
	release()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
}

// waitObserver is a context that reports calls of Done.
type waitObserver struct {
	context.Context
	called chan struct{}
}

func (a waitObserver) Done() <-chan struct{} {
	select {
	case a.called <- struct{}{}:
	default:
	}
	return a.Context.Done()
}

func TestContextEndsTheWaitForALock(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			unlock, err := store.Lock(t.Context(), "a")
			must.Do(t, err)
			if other, err := store.Lock(t.Context(), "b"); err != nil {
				t.Fatal(err)
			} else {
				other()
			}
			cause := errors.New("cancelled")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			if _, err := store.Lock(ctx, "a"); !errors.Is(err, cause) {
				t.Fatal(err)
			}
			unlock()
			if unlock, err = store.Lock(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			unlock()
		})
	}
}

func TestLogoutRevokesTheToken(t *testing.T) {
	w := newEnvironment(t)
	store, _ := fileStore(t)
	c := w.Client()
	c.Store = store
	must.Do(t, c.Login(t.Context(), w.URL(), "tools"))
	must.Do(t, c.Logout(t.Context(), w.URL()))
	if h, err := authorize(c, w.URL()); h != "" || err != nil {
		t.Fatalf("after the logout: %q, %v", h, err)
	}
	must.Equal(t, w.Count("as POST /revoke"), 1)
}
