//go:build !unix

package transport_test

import (
	"log"
	"os/exec"
)

func newSession(*exec.Cmd) {}

func startGrandchild(func(*exec.Cmd)) { log.Fatal("this role requires Unix") }

func grandchildReady() {}

func stdioStates() { log.Fatal("this role requires Unix") }
