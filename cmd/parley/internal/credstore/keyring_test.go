package credstore

import (
	"errors"
	"testing"

	"github.com/zalando/go-keyring"
)

func TestSystemKeyringReportsMissingSecrets(t *testing.T) {
	keyring.MockInit() // do not use the user's keyring
	if secret, err := (system{}).Get("x"); !errors.Is(err, ErrNotFound) || secret != "" {
		t.Errorf("Get() = %q, %v", secret, err)
	}
	if err := (system{}).Set("x", "planted"); err != nil {
		t.Fatal(err)
	}
	if secret, err := (system{}).Get("x"); err != nil || secret != "planted" {
		t.Errorf("Get() = %q, %v", secret, err)
	}
	keyring.MockInitWithError(errors.New("locked"))
	if _, err := (system{}).Get("x"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("Get() with a locked keyring: %v", err)
	}
}
