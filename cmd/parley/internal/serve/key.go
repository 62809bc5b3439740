package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/internal/atomicfile"
)

// maxKeyFile is the limit of auth.ParseKeys, which reports a larger file.
const maxKeyFile = 8 << 20

// keyFile is the file of keys that a command reads or changes.
type keyFile struct{ path string }

func (f *keyFile) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "file", "f", "keys.json", "`file` of the keys, for --auth keys=FILE")
}

// NewKey returns the command that edits the API keys of the users of an endpoint.
func NewKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Edit the API keys of the users of an endpoint",
		Long: `Make, list and remove the API keys of the people who may use an endpoint. The file contains only
hashes of the keys. parley up --auth keys=FILE notices when it changes; see parley help authorization.`,
		Example: `
parley key add ada --group finance --expires 90d --comment laptop
parley key ls
parley key rm ada
parley up --auth keys=keys.json`,
		Args: program.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeyAdd(), newKeyLs(), newKeyRm())
	return cmd
}

func newKeyAdd() *cobra.Command {
	var file keyFile
	var key auth.Key
	var expires string
	cmd := &cobra.Command{
		Use:   "add USER [flags]",
		Short: "Make a key for a user, and print it once",
		Long: "Make an API key for a user, store its digest in the file, and print the key. It cannot be shown again." +
			"\nA user may have several keys.",
		Example: `
parley key add ada
parley key add ada --scope notes:write --group finance --expires 90d --comment laptop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("expected one USER, not %d arguments; see %s --help", len(args), cmd.CommandPath())
			}
			key.User = args[0]
			var err error
			if key.Expires, err = expiryOf(expires, time.Now()); err != nil {
				return err
			}
			return addKey(cmd, &file, key)
		},
	}
	file.add(cmd)
	cmd.Flags().Var((*program.Repeated)(&key.Scopes), "scope", "grant this `scope` (repeatable)")
	cmd.Flags().Var((*program.Repeated)(&key.Groups), "group", "put the user into this `group` (repeatable)")
	cmd.Flags().StringVar(&expires, "expires", "", "`when` the key expires: after a time such as 90d or 12h, or on a "+
		"date (default never)")
	cmd.Flags().StringVar(&key.Comment, "comment", "", "`text` for people, such as where the key is used")
	return cmd
}

// expiryOf returns the time that a duration or a date means. A date is the beginning of the day, in UTC.
func expiryOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		at, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		life, invalid := time.ParseDuration(text)
		if days, found := strings.CutSuffix(text, "d"); found {
			var n int
			if n, invalid = strconv.Atoi(days); invalid == nil && n < 36_525 {
				life = time.Duration(n) * 24 * time.Hour
			}
		}
		if invalid != nil || life <= 0 {
			return at, fmt.Errorf("--expires %q must be a time such as 90d or 12h, or a date such as 2027-12-31", text)
		}
		at = now.Add(life)
	}
	if !at.After(now) {
		return at, fmt.Errorf("--expires %s is in the past", text)
	}
	return at.UTC().Truncate(time.Second), nil
}

// keyStatus is a key in the output. It has the key itself only when the key is new.
type keyStatus struct {
	ID      string     `json:"id"`
	User    string     `json:"user"`
	Key     string     `json:"key,omitempty"`
	Scopes  []string   `json:"scopes"`
	Groups  []string   `json:"groups"`
	Expires *time.Time `json:"expires,omitempty"`
	Expired bool       `json:"expired"`
	Comment string     `json:"comment,omitempty"`
}

func statusOfKey(k *auth.Key) keyStatus {
	s := keyStatus{ID: keyID(k), User: k.User, Scopes: append([]string{}, k.Scopes...),
		Groups: append([]string{}, k.Groups...), Comment: k.Comment}
	if !k.Expires.IsZero() {
		s.Expires, s.Expired = &k.Expires, !time.Now().Before(k.Expires)
	}
	return s
}

// keyID returns the beginning of the digest of a key, which names the key in the output of parley key ls.
func keyID(k *auth.Key) string { return strings.ToLower(k.SHA256[:min(len(k.SHA256), 12)]) }

// update changes the keys of the file.
func (f *keyFile) update(cmd *cobra.Command, change func([]auth.Key) ([]auth.Key, error)) error {
	return atomicfile.Update(cmd.Context(), f.path, maxKeyFile, func(old []byte) ([]byte, error) {
		var keys []auth.Key
		if old != nil {
			var err error
			if keys, err = auth.ParseKeys(old); err != nil {
				return nil, f.invalid(err)
			}
		}
		keys, err := change(keys)
		if err != nil {
			return nil, err
		}
		return auth.FormatKeys(keys)
	})
}

func (f *keyFile) invalid(err error) error {
	return fmt.Errorf("cannot read the API keys: %s: %w", f.path, err)
}

func addKey(cmd *cobra.Command, f *keyFile, key auth.Key) error {
	secret := auth.NewKey()
	key.SHA256 = auth.HashKey(secret)
	if _, err := auth.FormatKeys([]auth.Key{key}); err != nil {
		_, reason, _ := strings.Cut(err.Error(), ": ") // there is one key only
		return fmt.Errorf("cannot add the key: %s", reason)
	}
	if err := f.update(cmd, func(keys []auth.Key) ([]auth.Key, error) { return append(keys, key), nil }); err != nil {
		return err
	}
	status := statusOfKey(&key)
	status.Key = secret
	if err := output.Print(cmd, status, "%s\n", secret); err != nil {
		return err
	}
	cmd.PrintErrf("parley: the key is shown only now; %s has its digest. Send it as the header "+
		"\"Authorization: Bearer …\".\n", terminal.Line(f.path))
	return nil
}

func newKeyLs() *cobra.Command {
	var file keyFile
	cmd := &cobra.Command{
		Use:   "ls [flags]",
		Short: "List the users and their keys",
		Long: "List the users in a file of keys, with the ID, groups, scopes and expiry of each key. The file does\n" +
			"not contain the keys.",
		Example: "parley key ls",
		Args:    program.UnknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listKeys(cmd, &file) },
	}
	file.add(cmd)
	return cmd
}

func listKeys(cmd *cobra.Command, f *keyFile) error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("cannot read the API keys: %w; make one with parley key add, or choose the file with --file",
			err)
	}
	keys, err := auth.ParseKeys(content)
	if err != nil {
		return f.invalid(err)
	}
	all := []keyStatus{}
	for i := range keys {
		all = append(all, statusOfKey(&keys[i]))
	}
	slices.SortStableFunc(all, func(a, b keyStatus) int { return cmp.Compare(a.User, b.User) })
	return output.Show(cmd, all, func(w io.Writer) error {
		rows := make([][]string, 0, len(all))
		for _, k := range all {
			expires := ""
			if k.Expires != nil {
				expires = k.Expires.Format(time.DateOnly)
			}
			if k.Expired {
				expires += " (expired)"
			}
			rows = append(rows, []string{k.ID, terminal.Line(k.User), expires,
				terminal.Line(strings.Join(k.Groups, " ")), strings.Join(k.Scopes, " "), terminal.Line(k.Comment)})
		}
		head := []string{"ID", "USER", "EXPIRES", "GROUPS", "SCOPES", "COMMENT"}
		return terminal.Table(w, terminal.Width(w), head, rows)
	})
}

func newKeyRm() *cobra.Command {
	var file keyFile
	cmd := &cobra.Command{
		Use:   "rm USER|ID|KEY... [flags]",
		Short: "Remove keys: all of a user, or one",
		Long: "Remove all keys of a user, the key with an ID of parley key ls, or the full key, such as one " +
			"that\nhas leaked. A running parley up rejects them from then on.",
		Example: `
parley key rm ada
parley key rm 2bd806c97f0e`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no USER, ID or KEY; see %s --help", cmd.CommandPath())
			}
			return removeKeys(cmd, &file, args)
		},
	}
	file.add(cmd)
	return cmd
}

func removeKeys(cmd *cobra.Command, f *keyFile, names []string) error {
	var removed []keyStatus
	if _, err := os.Stat(f.path); err != nil { // so that the command makes no file
		return fmt.Errorf("cannot read the API keys: %w; choose the file with --file", err)
	}
	err := f.update(cmd, func(keys []auth.Key) ([]auth.Key, error) {
		removed = nil
		for _, name := range names {
			named := func(k auth.Key) bool {
				return k.User == name || keyID(&k) == name || strings.EqualFold(k.SHA256, auth.HashKey(name))
			}
			first := slices.IndexFunc(keys, named)
			if first < 0 {
				return nil, fmt.Errorf("%s has no user or key %q; see parley key ls", f.path, shown(name))
			}
			for _, k := range keys {
				if named(k) && k.User != keys[first].User { // the ID of one user's key is the name of another user
					return nil, errors.New("the name is ambiguous; use the IDs of parley key ls")
				}
				if named(k) {
					removed = append(removed, statusOfKey(&k))
				}
			}
			keys = slices.DeleteFunc(keys, named)
		}
		return keys, nil
	})
	if err != nil {
		return err
	}
	var lines []string
	for _, k := range removed {
		lines = append(lines, fmt.Sprintf("Removed the key %s of %s from %s.\n", k.ID, terminal.Line(k.User),
			terminal.Line(f.path)))
	}
	return output.Print(cmd, removed, "%s", strings.Join(lines, ""))
}

// shown returns a name for an error, which does not repeat a key.
func shown(name string) string {
	if strings.HasPrefix(name, "pk_") {
		return "pk_…"
	}
	return name
}
