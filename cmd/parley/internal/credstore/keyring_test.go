package credstore

import (
	"errors"
	"testing"

	"github.com/zalando/go-keyring"
)

func TestTheSystemsKeyringSaysWhatItDoesNotHave(t *testing.T) {
	keyring.MockInit() // no test gets at the user's own
	if secret, err := (system{}).Get("x"); !errors.Is(err, ErrNotFound) || secret != "" {
		t.Errorf("%q, %v", secret, err)
	}
	if err := (system{}).Set("x", "planted"); err != nil {
		t.Fatal(err)
	}
	if secret, err := (system{}).Get("x"); err != nil || secret != "planted" {
		t.Errorf("%q, %v", secret, err)
	}
	keyring.MockInitWithError(errors.New("locked"))
	if _, err := (system{}).Get("x"); err == nil || errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
