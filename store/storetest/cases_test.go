package storetest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a tb that records failure.
type recorder struct {
	mu     sync.Mutex
	failed string
}

func (r *recorder) Helper()           {}
func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == "" {
		r.failed = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed != ""
}

// anyCase is a case of any suite.
type anyCase struct {
	name string
	open func(full) full
	test func(t tb, s full)
}

func every[S any](prefix string, open func(full) full, groups ...[]testCase[S]) []anyCase {
	var cases []anyCase
	for _, group := range groups {
		for _, c := range group {
			cases = append(cases, anyCase{prefix + c.name, open, func(t tb, s full) { c.test(t, any(s).(S)) }})
		}
	}
	return cases
}

func allCases() []anyCase {
	large := func(m full) full { return m }
	all := every("KV/", large, kvCases, ttlCases, raceCases, setCases, setTTLCases, kvHistoryCases)
	all = append(all, every("Full/", small, fullCases)...)
	all = append(all, every("Log/", large, logCases, purgeCases, logTTLCases, logHistoryCases)...)
	all = append(all, every("Log/", large, sharedCases)...)
	return append(all, every("Bus/", large, busCases, queueCases, busRaceCases)...)
}

// try runs a case on a store with a fault and returns how the case failed. The clock of
// the bubble makes the case wait no real time for messages that do not arrive.
func try(t *testing.T, c anyCase, fault func(m full, h *hooked)) string {
	var r recorder
	synctest.Test(t, func(*testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if p := recover(); p != nil {
					r.Errorf("panic: %v", p)
				}
			}()
			c.test(&r, breakStore(c.open(memory{store.NewMemory()}), fault))
		}()
		<-done
	})
	return r.failed
}

func TestEveryCasePassesOnCorrectStore(t *testing.T) {
	for _, c := range allCases() {
		must.CheckEqual(t, try(t, c, func(full, *hooked) {}), "", c.name)
	}
}

// Every case can fail, and every fault is found by some case.
func TestCasesFindFaults(t *testing.T) {
	found := make(map[string]bool)
	cases := allCases()
	for _, c := range cases {
		fails := false
		for _, f := range faults {
			if !strings.HasPrefix(c.name, f.cases) || fails && found[f.name] {
				continue
			}
			if failed := try(t, c, f.fault); failed != "" {
				t.Logf("%s fails when the store %s: %.100s", c.name, f.name, failed)
				found[f.name], fails = true, true
			}
		}
		if !fails {
			t.Errorf("%s passes on every broken store", c.name)
		}
	}
	for _, f := range faults {
		if !found[f.name] {
			t.Errorf("no case finds that the store %s", f.name)
		}
	}
	t.Logf("%d cases, %d faults", len(cases), len(faults))
}
