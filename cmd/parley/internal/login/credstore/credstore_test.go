package credstore

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ring is a keyring in memory. If err is set, all its methods return err.
type ring struct {
	mu      sync.Mutex
	secrets map[string]string
	err     error
	sets    int
}

func (r *ring) Get(name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return "", r.err
	}
	secret, found := r.secrets[name]
	if !found {
		return "", keyring.ErrNotFound
	}
	return secret, nil
}

func (r *ring) Set(name, secret string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if r.secrets == nil {
		r.secrets = make(map[string]string)
	}
	r.sets++
	r.secrets[name] = secret
	return nil
}

func save(t *testing.T, s *Store, value string) {
	t.Helper()
	must.Do(t, s.Save(t.Context(), "server x", []byte(value)))
}

func load(t *testing.T, s *Store, want string) {
	t.Helper()
	got := must.Get(s.Load(t.Context(), "server x"))(t)
	must.Equal(t, string(got), want, "Load() =", got)
}

func TestKeyIsStoredInTheKeyring(t *testing.T) {
	dir, r := filepath.Join(t.TempDir(), "a", "b"), &ring{}
	save(t, New(dir, r), "planted secret")
	load(t, New(dir, r), "planted secret")
	_, err := os.Stat(filepath.Join(dir, keyFile))
	must.CheckThat(t, err != nil, "a key file was created")
	must.CheckContains(t, New(dir, r).Location(), "keyring", "Location() =")
	checkPrivate(t, dir)

	for name, other := range map[string]*ring{"empty": {}, "locked": {err: errors.New("locked")}} {
		if _, err := New(dir, other).Load(t.Context(), "server x"); !errors.Is(err, ErrUnavailable) ||
			!strings.Contains(err.Error(), "keyring") {
			t.Errorf("Load with the keyring %s: %v", name, err)
		}
		err := New(dir, other).Save(t.Context(), "server y", []byte("x"))
		must.CheckThat(t, err != nil, "Save with the keyring %s replaced the tokens file", name)
	}
	load(t, New(dir, r), "planted secret")
}

func TestKeyIsStoredInAFileWithoutAKeyring(t *testing.T) {
	for name, r := range map[string]Keyring{"none": nil, "broken": &ring{err: errors.New("broken")}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			save(t, New(dir, r), "planted secret")
			load(t, New(dir, nil), "planted secret")
			load(t, New(dir, &ring{}), "planted secret") // the key file has priority
			must.CheckContains(t, New(dir, r).Location(), filepath.Join(dir, keyFile), "Location() =")
			checkPrivate(t, dir)
			if runtime.GOOS == "windows" {
				return
			}
			must.Do(t, os.Chmod(filepath.Join(dir, keyFile), 0o644))
			must.CheckFails(t, must.Err(New(dir, r).Load(t.Context(), "server x")), "chmod 600",
				"error for a key file that others can read")
		})
	}
}

// checkPrivate checks that the files are readable by the user only, and encrypted.
func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	files := must.Get(os.ReadDir(dir))(t)
	for _, f := range files {
		info := must.Get(f.Info())(t)
		text := must.Get(os.ReadFile(filepath.Join(dir, f.Name())))(t)
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 || bytes.Contains(text, []byte("planted")) {
			t.Errorf("%s has mode %v and content %q", f.Name(), info.Mode(), text)
		}
	}
}

func TestEmptyStoreCreatesNoFilesAndNoKey(t *testing.T) {
	dir, r := filepath.Join(t.TempDir(), "absent"), &ring{}
	s := New(dir, r)
	load(t, s, "")
	keys, err := s.Keys(t.Context())
	must.CheckThat(t, keys == nil && err == nil, "Keys() = %q, %v, want none", keys, err)
	unlock := must.Get(s.Lock(t.Context(), "server x"))(t)
	unlock()
	must.Do(t, s.Save(t.Context(), "server x", nil))
	_, err = os.Stat(dir)
	must.CheckThat(t, err != nil && r.sets <= 0, "a directory or a key was created")
	save(t, New(dir, r), "from another process")
	load(t, s, "from another process")
}

func TestConcurrentFirstSavesCreateOneKey(t *testing.T) {
	for name, r := range map[string]Keyring{"keyring": &ring{}, "key file": nil} {
		dir := t.TempDir()
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() { must.Check(t, New(dir, r).Save(t.Context(), strings.Repeat("k", n+1), []byte("x"))) })
		}
		group.Wait()
		keys := must.Get(New(dir, r).Keys(t.Context()))(t)
		must.CheckEqual(t, len(keys), 8, name, "Keys() =", keys)
	}
}

func TestKeyringIsUsedOnlyWithinASession(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "bus"), nil, 0o600))
	for _, test := range []struct {
		goos string
		env  map[string]string
		want bool
	}{
		{"darwin", nil, true},
		{"windows", nil, true},
		{"linux", nil, false},
		{"linux", map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus"}, true},
		{"linux", map[string]string{"XDG_RUNTIME_DIR": dir}, true},
		{"freebsd", map[string]string{"XDG_RUNTIME_DIR": dir + "x"}, false},
	} {
		must.CheckEqual(t, hasSession(test.goos, func(name string) string { return test.env[name] }), test.want,
			test.goos, test.env)
	}
	t.Setenv("PARLEY_NO_KEYRING", "1")
	must.CheckThat(t, System() == nil, "System() returned a keyring although PARLEY_NO_KEYRING is set")
}

func TestSystemKeyringReportsMissingSecrets(t *testing.T) {
	keyring.MockInit() // do not use the user's keyring
	secret, err := (system{}).Get("x")
	must.CheckThat(t, errors.Is(err, keyring.ErrNotFound) && secret == "", "Get() = %q, %v", secret, err)
	must.Do(t, (system{}).Set("x", "planted"))
	must.CheckEqual(t, must.Get((system{}).Get("x"))(t), "planted", "Get() =")
	keyring.MockInitWithError(errors.New("locked"))
	_, err = (system{}).Get("x")
	must.CheckThat(t, err != nil && !errors.Is(err, keyring.ErrNotFound), "Get() with a locked keyring: %v", err)
}

func TestLoginErrorContainsAQuotedCommand(t *testing.T) {
	for _, test := range []struct {
		request oauth.AuthorizationRequest
		want    string
	}{
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a"}},
			"requires a login; run: parley login https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a"}, Previous: []string{"a"}},
			"has expired; run: parley login https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a", "b", "c:d"},
			Previous: []string{"a"}},
			"with the scope b c:d; run: parley login --scope 'b c:d' https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp?a=1&b=$(id)", Scopes: []string{"a"}},
			"run: parley login 'https://example.com/mcp?a=1&b=$(id)'"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"';id;'"},
			Previous: []string{}}, `--scope ''\'';id;'\''' https://example.com/mcp`},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"--port=1"},
			Previous: []string{}}, `--scope --port=1 https://example.com/mcp`},
	} {
		err := new(Authorizer).withLoginAdvice(&oauth.InteractionError{Request: test.request}, "")
		must.CheckThat(t, strings.HasSuffix(err.Error(), test.want) && errors.Is(err, oauth.ErrInteraction),
			"error %q, want the suffix %q", err, test.want)
	}
}

// Two servers of a configuration can have one URL and credentials of two users.
func TestServersAtOneURLKeepTheirOwnHeaders(t *testing.T) {
	const url = "https://example.com/mcp"
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	a := new(Authorizer)
	header := func(fields ...string) http.Header {
		h := make(http.Header)
		for i := 0; i < len(fields); i += 2 {
			h.Set(fields[i], fields[i+1])
		}
		return h
	}
	targets := []http.Header{header("Authorization", "Bearer one", "X-Team", "a"), header("X-Api-Key", "k"), nil}
	var all []client.Target
	for _, h := range targets {
		all = append(all, &client.HTTPTarget{URL: url, Header: h})
	}
	must.Do(t, a.SetTargets(t.Context(), nil, all...))
	for i, sent := range []http.Header{
		header("Authorization", "Bearer one", "Accept", "*/*"), // a client can move another header, such as Host
		header("X-Api-Key", "k", "Authorization", "Bearer stored"), header("Authorization", "Bearer stored"),
	} {
		c, given := a.clientOf(&http.Request{Header: sent}, url)
		if logins := c != nil; logins != (i > 0) || !maps.EqualFunc(given, targets[i], slices.Equal) {
			t.Errorf("request %d: uses a login: %t, headers of the user: %v", i, logins, given)
		}
	}
}
