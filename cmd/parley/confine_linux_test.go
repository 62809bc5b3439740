//go:build integration

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The kernel must have Landlock, of Linux 6.12 or newer.
func TestConfineScripts(t *testing.T) { testscript.Run(t, scripts("testdata/confine")) }
