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
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
)

// childVariable has this binary play a process of its own: the store's file and the
// server's URL.
const childVariable = "PARLEY_OAUTH_TEST_CHILD"

func storeKey() []byte { return bytes.Repeat([]byte("k"), 32) }

// refreshOnce is the child: it wants a token, and prints it.
func refreshOnce(told string) int {
	path, server, _ := strings.Cut(told, "\n")
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
	store, err := oauth.NewFileStore(path, storeKey())
	if err != nil {
		t.Fatal(err)
	}
	return store, path
}

// expired logs in, with a token that is of no more use at once.
func (w *world) expired(store oauth.TokenStore) *oauth.Client {
	lasts := func(seconds int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lifetime = seconds
	}
	lasts(0)
	c := w.client()
	c.Store = store
	if err := c.Login(context.Background(), w.url()); err != nil {
		w.t.Fatal(err)
	}
	lasts(3600)
	return c
}

func TestOneRefreshServesAllWhoWaitForIt(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.expired(store)
			headers := make([]string, 100)
			var all sync.WaitGroup
			for i := range headers {
				all.Go(func() {
					var err error
					if headers[i], err = authorize(c, w.url()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for _, h := range headers {
				if h != headers[0] || !strings.HasPrefix(h, "Bearer "+secret) {
					t.Fatalf("one sends %q and another %q", headers[0], h)
				}
			}
			if n := w.count("as POST /token"); n != 2 {
				t.Fatalf("%d token requests: a login and %d refreshes", n, n-1)
			}
			if got := w.forms[1]; got.Get("grant_type") != "refresh_token" || got.Get("resource") != w.url() {
				t.Fatalf("O2: refreshed with %v", got)
			}
		})
	}
}

// A server that gives out a new refresh token has made the old one useless: whoever
// refreshed and did not wait must not have lost both.
func TestARefreshThatNobodyWaitsForIsKept(t *testing.T) {
	w := newWorld(t)
	c := w.expired(nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.onToken = func(form url.Values, _ map[string]any) {
		if form.Get("grant_type") == "refresh_token" {
			cancel()
			<-time.After(100 * time.Millisecond) // in which one who does not wait has left
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Authorize(req, w.url())
	header, err := authorize(c, w.url())
	if err != nil || !strings.HasPrefix(header, "Bearer "+secret) {
		t.Errorf("the next request sends %q, %v", header, err)
	}
	if n := w.count("as POST /token"); n != 2 {
		t.Errorf("%d token requests: a login and %d refreshes", n, n-1)
	}
}

// Nobody is kept for long by a refresh that does not end.
func TestARefreshThatHangsLetsGo(t *testing.T) {
	w := newWorld(t)
	c := w.expired(nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		cancel()
		<-r.Context().Done()
		return true
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := c.Authorize(req, w.url()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func stores(t *testing.T) map[string]oauth.TokenStore {
	file, _ := fileStore(t)
	return map[string]oauth.TokenStore{"memory": &oauth.MemoryStore{}, "file": file}
}

func TestOneRefreshServesAllProcesses(t *testing.T) {
	w := newWorld(t)
	store, path := fileStore(t)
	w.expired(store)
	outputs := make([]string, 3)
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+path+"\n"+w.url())
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			outputs[i] = string(out)
		})
	}
	all.Wait()
	if outputs[0] != outputs[1] || outputs[0] != outputs[2] || !strings.HasPrefix(outputs[0], "Bearer "+secret) {
		t.Fatalf("the processes use %q", outputs)
	}
	if n := w.count("as POST /token"); n != 2 {
		t.Fatalf("%d token requests: a login and %d refreshes", n, n-1)
	}
}

// O14: the file is readable by nobody else, holds nothing in the clear, opens with its
// key alone, and with a new one once the old is given too.
func TestTheFileOfTokensIsSafe(t *testing.T) {
	w := newWorld(t)
	store, path := fileStore(t)
	c := w.client()
	c.Store = store
	if _, err := w.dial(c, ""); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(secret)) || bytes.Contains(content, []byte("127.0.0.1")) {
			t.Errorf("%s can be read: %q", name, content)
		}
	}
	const key = "server x"
	other := bytes.Repeat([]byte("o"), 32)
	stranger, err := oauth.NewFileStore(path, other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Load(t.Context(), key); !errors.Is(err, oauth.ErrDamagedStore) {
		t.Errorf("another key: %v", err)
	}
	if err := stranger.Save(t.Context(), key, []byte("x")); !errors.Is(err, oauth.ErrDamagedStore) {
		t.Errorf("another key writes: %v", err)
	}
	rotating, err := oauth.NewFileStore(path, other, storeKey())
	if err != nil {
		t.Fatal(err)
	}
	if err := rotating.Save(t.Context(), key, []byte("value")); err != nil {
		t.Fatal(err)
	}
	if v, err := stranger.Load(t.Context(), key); err != nil || string(v) != "value" {
		t.Errorf("after the keys were changed: %q, %v", v, err)
	}
}

// What would make the file too long to be read again is not written, and all else is
// still there.
func TestAFileOfTokensThatIsFullIsStillOneThatOpens(t *testing.T) {
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
		t.Fatalf("%d bytes are left of the first one, %v", len(v), err)
	}
	if err := store.Save(t.Context(), "server 0", nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), "server x", value); err != nil {
		t.Fatalf("after one was deleted: %v", err)
	}
}

// Another process that does not go on keeps nobody here from giving up.
func TestAFileThatIsHeldElsewhereIsWaitedForNoLongerThanTheContext(t *testing.T) {
	store, path := fileStore(t)
	release, err := oauth.LockFile(t.Context(), path+".lock")
	if err != nil {
		t.Fatal(err)
	}
	first := awaited{t.Context(), make(chan struct{}, 2)}
	loaded := make(chan error, 1)
	go func() {
		_, err := store.Load(first, "server x")
		loaded <- err
	}()
	<-first.looked // it has its turn
	<-first.looked // and waits for the file
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if err := store.Save(ctx, "server y", []byte("v")); !errors.Is(err, gone) {
		t.Errorf("behind one who waits: %v", err)
	}
	release()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
}

// awaited is a context that tells when somebody begins to wait for its end.
type awaited struct {
	context.Context
	looked chan struct{}
}

func (a awaited) Done() <-chan struct{} {
	select {
	case a.looked <- struct{}{}:
	default:
	}
	return a.Context.Done()
}

func TestALoginOutlivesItsProcess(t *testing.T) {
	w := newWorld(t)
	store, _ := fileStore(t)
	for range 2 {
		c := w.client()
		c.Store = store
		if _, err := w.dial(c, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.count("as GET /authorize"); n != 1 {
		t.Fatalf("the user was asked %d times", n)
	}
}

func TestLocksAreWaitedForNoLongerThanTheContext(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			unlock, err := store.Lock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if other, err := store.Lock(t.Context(), "b"); err != nil {
				t.Fatal(err)
			} else {
				other()
			}
			gone := errors.New("gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(gone)
			if _, err := store.Lock(ctx, "a"); !errors.Is(err, gone) {
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

func TestLogoutForgetsAndRevokes(t *testing.T) {
	w := newWorld(t)
	store, _ := fileStore(t)
	c := w.client()
	c.Store = store
	if err := c.Login(t.Context(), w.url(), "tools"); err != nil {
		t.Fatal(err)
	}
	if err := c.Logout(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if h, err := authorize(c, w.url()); h != "" || err != nil {
		t.Fatalf("it still sends %q, %v", h, err)
	}
	if n := w.count("as POST /revoke"); n != 1 {
		t.Fatalf("revoked %d times", n)
	}
}
