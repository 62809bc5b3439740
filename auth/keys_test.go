package auth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
)

// keysOf returns the content of a file in which each user has the key "key of NAME".
func keysOf(t testing.TB, users ...string) []byte {
	var keys []auth.Key
	for _, user := range users {
		keys = append(keys, auth.Key{User: user, SHA256: auth.HashKey("key of " + user)})
	}
	return must.Get(auth.FormatKeys(keys))(t)
}

// userOf returns the user of a key, or the reason why it is rejected.
func userOf(k *auth.Keys, key string) string {
	info, err := k.Verify(context.Background(), key)
	var invalid *auth.InvalidTokenError
	switch {
	case err == nil:
		return info.Principal.String()
	case errors.As(err, &invalid):
		return invalid.Reason
	}
	return err.Error()
}

func TestKeysIdentifyTheirUsers(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	k := &auth.Keys{Now: func() time.Time { return now }, List: []auth.Key{
		{User: "ada", SHA256: auth.HashKey("a"), Scopes: []string{"read"}, Groups: []string{"finance", "ops"}},
		{User: "ada", SHA256: auth.HashKey("a2"), Expires: now.Add(time.Second)},
		{User: "bob", SHA256: strings.ToUpper(auth.HashKey("b")), Expires: now},
	}}
	info := must.Get(k.Verify(t.Context(), "a"))(t)
	must.CheckEqual(t, info.Principal.String(), "ada at keys")
	must.CheckEqual(t, fmt.Sprint(info.Scopes), "[read]")
	must.CheckEqual(t, string(info.Claims), `{"groups":["finance","ops"],"sub":"ada"}`)
	key := auth.NewKey()
	for given, want := range map[string]string{
		"a2": "ada at keys", "b": "the API key expired on 2026-11-28: ask the operator of the server for a new one",
		"c": "unknown API key", "": "unknown API key", auth.HashKey("a"): "unknown API key",
		key: "unknown API key", key[:len(key)-1]: "the API key is mistyped or cut off: its checksum is wrong",
	} {
		must.CheckEqual(t, userOf(k, given), want, given)
	}
	k = &auth.Keys{Issuer: "https://keys.example", List: []auth.Key{{User: "ada", SHA256: auth.HashKey("a")}}}
	must.CheckEqual(t, userOf(k, "a"), "ada at https://keys.example")
}

// Rule R14. A key is accepted along with the tokens of an issuer, although it has no audience. It is never sent to
// the issuer.
func TestKeysAreAcceptedBesideAnIssuer(t *testing.T) {
	p := resourceOf(t, map[string]*auth.Info{"token": {}, "aimless": {Audience: []string{}}})
	var asked []string
	issuer := p.Verifier
	p.Verifier = &auth.Keys{List: []auth.Key{{User: "bob", SHA256: auth.HashKey("key")}},
		Next: auth.VerifierFunc(func(ctx context.Context, token string) (*auth.Info, error) {
			asked = append(asked, token)
			return issuer.Verify(ctx, token)
		})}
	unknown := auth.NewKey()
	for token, want := range map[string]string{"token": "ada", "key": "bob", "aimless": "the token is not for this server",
		"other": "unknown token", unknown: "unknown API key", unknown + "x": "the API key is mistyped"} {
		info, no, _ := present(p, "Bearer", token)
		if no != nil && !strings.HasPrefix(no.Reason, want) || no == nil && info.Principal.Subject() != want {
			t.Errorf("%s: %v, %v; want %s", token, info, no, want)
		}
	}
	must.CheckEqual(t, len(asked), 3, "the issuer receives", asked)
}

// Rule R14.
func TestTheFileOfKeysIsReadAgainWhenItChanges(t *testing.T) {
	file, log := filepath.Join(t.TempDir(), "keys.json"), new(bytes.Buffer)
	k := &auth.Keys{File: file, Logger: slog.New(slog.NewTextHandler(log, nil))}
	must.CheckFails(t, k.Check(), "parley key add", "no file")
	now := time.Now()
	k = &auth.Keys{File: file, Logger: k.Logger, Now: func() time.Time { return now.Add(time.Second) }}
	inPlace := func(content []byte) error { // write within the resolution of the file system's clock
		return errors.Join(os.WriteFile(file, content, 0o600), os.Chtimes(file, now, now))
	}
	replaced := func(content []byte) error {
		temporary := file + ".new"
		if err := os.WriteFile(temporary, content, 0o600); err != nil {
			return err
		}
		return os.Rename(temporary, file)
	}
	must.Do(t, inPlace(keysOf(t, "ada")))
	must.Do(t, k.Check())
	for i, step := range []struct {
		write   func([]byte) error
		content []byte
		want    string // whether the keys of ada, bob and eve are accepted
		logged  string
	}{
		{inPlace, keysOf(t, "bob"), "nyn", ""}, // of the same size, at once
		{inPlace, keysOf(t, "eve"), "nny", ""},
		{replaced, keysOf(t, "ada", "bob"), "yyn", ""},
		{replaced, []byte("{"), "yyn", "must be JSON"},
		{replaced, []byte("{}"), "nnn", ""},
		{inPlace, keysOf(t, "eve"), "nny", ""},
		{func([]byte) error { return os.Remove(file) }, nil, "nny", "no such file"},
		{replaced, keysOf(t, "ada"), "ynn", ""},
	} {
		must.Do(t, step.write(step.content))
		log.Reset()
		for range 2 {
			got := ""
			for _, user := range []string{"ada", "bob", "eve"} {
				if userOf(k, "key of "+user) == user+" at keys" {
					got += "y"
				} else {
					got += "n"
				}
			}
			must.CheckEqual(t, got, step.want, i)
		}
		n := strings.Count(log.String(), "the previous keys stay valid")
		must.CheckThat(t, (n > 0) == (step.logged != "") && n <= 1 && strings.Contains(log.String(), step.logged),
			"%d: log: %s", i, log)
	}
}

// Once a file is too old for a change to go unnoticed, it is no longer read for each request.
func TestAnOldFileOfKeysIsReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	must.Do(t, os.WriteFile(file, keysOf(t, "ada"), 0o600))
	old := time.Now().Add(-time.Minute)
	must.Do(t, os.Chtimes(file, old, old))
	k := &auth.Keys{File: file}
	must.CheckEqual(t, userOf(k, "key of ada"), "ada at keys")
	must.Do(t, os.WriteFile(file, keysOf(t, "bob"), 0o600))
	must.Do(t, os.Chtimes(file, old, old)) // the change is invisible, so nobody may read the file
	must.CheckEqual(t, userOf(k, "key of ada"), "ada at keys")
	must.Do(t, os.Chtimes(file, old, old.Add(time.Millisecond)))
	must.CheckEqual(t, userOf(k, "key of ada"), "unknown API key")
}

func TestInvalidFilesOfKeysAreRejected(t *testing.T) {
	digest := auth.HashKey("a")
	key := func(fields string) string { return `{"keys":[{"user":"ada","sha256":"` + digest + `"` + fields + `}]}` }
	many := func(n int) string { return `,"scopes":["a"` + strings.Repeat(`,"a"`, n-1) + `]` }
	tooMany := `{"keys":[` + strings.Repeat(`{},`, 10_000) + `{}]}`
	for content, want := range map[string]string{
		key(""): "", `{"keys":[]}`: "", key(`,"expires":"2027-01-01T00:00:00Z"`): "", key(many(100)): "", "{}": "",
		"": "must be JSON", "[]": "must be JSON", key("") + "x": "must be JSON", `{"keys":{}}`: "must be JSON",
		key(`,"expiry":"2027-01-01T00:00:00Z"`): "unknown", key(`,"Expires":"2027-01-01T00:00:00Z"`): "unknown",
		key(`,"user":"bob"`): "duplicate", key(`,"expires":"2027-01-01"`): "must be JSON",
		key(`,"scopes":["a b"]`): "invalid scope", key(`,"groups":[""]`): "a group must be", key(many(101)): "the limit is 100",
		key(`,"comment":"\n"`): "comment must be", key(`,"groups":["` + strings.Repeat("x", 1001) + `"]`): "a group must be",
		`{"keys":[{"user":"","sha256":"` + digest + `"}]}`:                         "keys[0]: user: ",
		`{"keys":[{"user":"ada"}]}`:                                                "sha256 must be a SHA-256 digest: 64 hexadecimal digits",
		`{"keys":[{"user":"ada","sha256":"` + digest + `0"}]}`:                     "sha256 must be",
		`{"keys":[{"user":"ada","sha256":"pk_abc"}]}`:                              "sha256 must be",
		strings.Replace(key(""), "]", `,{"user":"bob","sha256":"`+digest+`"}]`, 1): "keys[1]: another entry has the same",
		tooMany: "10001 keys; the limit is 10000", strings.Repeat(" ", 4<<20) + key(""): "too large",
	} {
		_, err := auth.ParseKeys([]byte(content))
		must.CheckThat(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)),
			"%.200s: %v; want %q", content, err, want)
	}
	keys := []auth.Key{{User: "ada", SHA256: digest, Scopes: []string{"a"}, Groups: []string{"<ops>"}, Comment: "a & b",
		Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}}
	content := must.Get(auth.FormatKeys(keys))(t)
	must.CheckEqual(t, fmt.Sprint(must.Get(auth.ParseKeys(content))(t)), fmt.Sprint(keys))
	_, err := auth.FormatKeys(append(keys, keys...))
	must.CheckThat(t, err != nil, "a file with two equal keys is written")
}

// The description of NewKey is enough to recognize a key.
func TestNewKeysHaveAChecksum(t *testing.T) {
	known := make(map[string]bool)
	form := regexp.MustCompile(`^pk_[0-9A-Za-z]{38}$`)
	for range 1000 {
		key := auth.NewKey()
		must.That(t, form.MatchString(key) && !known[key], "key %s", key)
		known[key] = true
	}
	must.CheckEqual(t, auth.HashKey("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
	// Computed with Python's zlib.crc32.
	k := &auth.Keys{List: []auth.Key{}}
	must.CheckEqual(t, userOf(k, "pk_"+strings.Repeat("A", 32)+"0crNIz"), "unknown API key")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
