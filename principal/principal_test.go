package principal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/principal"
)

func must(t *testing.T, issuer, subject, client string) principal.Principal {
	t.Helper()
	p, err := principal.New(issuer, subject, client)
	if err != nil {
		t.Fatalf("New(%q, %q, %q): %v", issuer, subject, client, err)
	}
	return p
}

func parse(key string) (p principal.Principal, err error) {
	err = p.UnmarshalText([]byte(key))
	return p, err
}

func TestZeroValueIsAnonymous(t *testing.T) {
	var p principal.Principal
	if p != principal.Anonymous || p.String() != "anonymous" {
		t.Fatalf("the zero value is %v", p)
	}
	if principal.Local == principal.Anonymous {
		t.Fatal("Local is Anonymous")
	}
}

func TestPartsArePreservedByteForByte(t *testing.T) {
	p := must(t, "https://as.example/Tenant", "ada/../../bob%2F|\u00e5", "app{1}")
	if p.Issuer() != "https://as.example/Tenant" || p.Subject() != "ada/../../bob%2F|\u00e5" || p.Client() != "app{1}" {
		t.Fatalf("got %q %q %q from %s", p.Issuer(), p.Subject(), p.Client(), p.Key())
	}
	if must(t, "https://as.example", "ada", "") == must(t, "https://as.example", "Ada", "") {
		t.Fatal("subjects that differ in case are equal principals")
	}
}

func TestPrincipalIsAMapKey(t *testing.T) {
	seen := map[principal.Principal]int{must(t, "i", "s", "c"): 1}
	if seen[must(t, "i", "s", "c")] != 1 || seen[must(t, "i", "s", "")] != 0 {
		t.Fatal("principals with equal parts are not equal")
	}
}

func TestKeyIsReadable(t *testing.T) {
	for _, c := range []struct {
		p    principal.Principal
		want string
	}{
		{principal.Anonymous, "anonymous/"},
		{principal.Local, "local/"},
		{must(t, "https://as.example", "ada", ""), "user/https%3A%2F%2Fas.example/ada//"},
		{must(t, "..", ".", "a.b"), "user/%2E%2E/%2E/a.b/"},
	} {
		if got := c.p.Key(); got != c.want {
			t.Errorf("key of %v is %q, want %q", c.p, got, c.want)
		}
	}
}

func TestNewRejectsInvalidParts(t *testing.T) {
	long := strings.Repeat("x", 1024)
	if _, err := principal.New(long, long, long); err != nil {
		t.Errorf("parts at the limit: %v", err)
	}
	for name, parts := range map[string][3]string{
		"an empty issuer":      {"", "s", "c"},
		"an empty subject":     {"i", "", "c"},
		"a long issuer":        {long + "x", "s", "c"},
		"a long subject":       {"i", long + "x", "c"},
		"a long client":        {"i", "s", long + "x"},
		"invalid UTF-8":        {"i", "s\xff", "c"},
		"a NUL":                {"i", "s\x00", "c"},
		"a line break":         {"i", "s", "c\n"},
		"a C1 control":         {"i", "s\u0085", "c"},
		"an encoded surrogate": {"i\xed\xa0\x80", "s", "c"},
	} {
		p, err := principal.New(parts[0], parts[1], parts[2])
		if err == nil || p != principal.Anonymous {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
}

func TestUnmarshalTextAcceptsOnlyCanonicalKeys(t *testing.T) {
	for _, key := range []string{
		"", "anonymous", "anonymous//", "local", "Local/", "user/", "user/i/s/c", "user/i/s/c//", "user/i//c/",
		"user/i/%73/c/", "user/i/%2f/c/", "user/i/%/c/", "user/i/%2/c/", "user/i/{s}/c/", "user/i/../c/",
		"user/i/s%0A/c/",
	} {
		if p, err := parse(key); err == nil {
			t.Errorf("%q is the key of %v", key, p)
		}
	}
}

func TestPrincipalRoundTripsThroughJSON(t *testing.T) {
	type record struct{ Owner principal.Principal }
	for _, p := range []principal.Principal{principal.Anonymous, principal.Local,
		must(t, "https://as.example", "ada", "app")} {
		data, err := json.Marshal(record{p})
		if err != nil {
			t.Fatal(err)
		}
		var back record
		if err := json.Unmarshal(data, &back); err != nil || back.Owner != p {
			t.Errorf("%s decodes as %v, %v", data, back.Owner, err)
		}
	}
	back := record{principal.Local}
	if err := json.Unmarshal([]byte(`{"Owner":"unknown"}`), &back); err == nil || back.Owner != principal.Local {
		t.Errorf("an invalid key decodes as %v, %v", back.Owner, err)
	}
}

func TestStringQuotesMisleadingParts(t *testing.T) {
	if got, want := must(t, "https://as.example", "ada at home", "").String(),
		`"ada at home" at https://as.example`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := must(t, "i", "\u202eada", "c").String(), `"\u202eada" at i through c`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeyDoesNotAllocate(t *testing.T) {
	p := must(t, "https://as.example", "ada", "app")
	if n := testing.AllocsPerRun(100, func() { _ = p.Key(); _ = principal.Anonymous.Key() }); n != 0 {
		t.Fatalf("Key allocates %v times", n)
	}
}

// The parts consist of the characters that keys are made of, so that collisions are likely to be found.
func TestKeysAreInjectiveAndPrefixFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) principal.Principal {
			part := rapid.StringOfN(rapid.RuneFrom([]rune("a/%2F.:{}|\u00e5")), 1, 6, -1)
			client := rapid.StringOfN(rapid.RuneFrom([]rune("a/%2F.")), 0, 4, -1)
			p, err := principal.New(part.Draw(t, label+" issuer"), part.Draw(t, label+" subject"),
				client.Draw(t, label+" client"))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		a, b := draw("a"), draw("b")
		same := a.Issuer() == b.Issuer() && a.Subject() == b.Subject() && a.Client() == b.Client()
		if same != (a == b) || same != (a.Key() == b.Key()) {
			t.Fatalf("%q and %q", a.Key(), b.Key())
		}
		if !same && strings.HasPrefix(a.Key(), b.Key()) {
			t.Fatalf("%q starts with %q", a.Key(), b.Key())
		}
		if back, err := parse(a.Key()); err != nil || back != a {
			t.Fatalf("%q is the key of %v, %v", a.Key(), back, err)
		}
	})
}

func FuzzUnmarshalText(f *testing.F) {
	for _, s := range []string{"anonymous/", "local/", "user/https%3A%2F%2Fas.example/ada/app/", "user/%2E%2E/s//",
		"user/i/%zz//"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if p, err := parse(key); err == nil && p.Key() != key {
			t.Fatalf("%q parsed, but its key is %q", key, p.Key())
		}
	})
}
