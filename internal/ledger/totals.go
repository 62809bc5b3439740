package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Totals are the sums of a ledger. A run has passed if all violations are 0.
type Totals struct {
	Calls   int `json:"calls"`
	Results int `json:"results"`
	Errors  int `json:"errors"`
	Starts  int `json:"starts"` // of handlers
	Events  int `json:"events"` // of streams
	Tasks   int `json:"tasks"`
	Faults  int `json:"faults"`

	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	Crossed    int `json:"crossed"`
	Changed    int `json:"changed"`
	Exceeded   int `json:"exceeded"`
}

func (t *Totals) count(kind Kind) {
	*map[Kind]*int{
		Lost: &t.Lost, Duplicated: &t.Duplicated, Crossed: &t.Crossed, Changed: &t.Changed, Exceeded: &t.Exceeded,
	}[kind]++
}

// Violations returns the number of all violations.
func (t Totals) Violations() int { return t.Lost + t.Duplicated + t.Crossed + t.Changed + t.Exceeded }

func (t Totals) String() string {
	return fmt.Sprintf("%d calls (%d results, %d errors), %d starts, %d events, %d tasks, %d faults: %d lost, %d duplicated, %d crossed, %d changed, %d exceeded",
		t.Calls, t.Results, t.Errors, t.Starts, t.Events, t.Tasks, t.Faults, t.Lost, t.Duplicated, t.Crossed, t.Changed, t.Exceeded)
}

// Append appends the totals of a test to a file, as one line of JSON.
func (t Totals) Append(path, test string, took time.Duration) error {
	line, err := json.Marshal(struct {
		Test    string  `json:"test"`
		Seconds float64 `json:"seconds"`
		Totals
	}{test, took.Round(time.Millisecond).Seconds(), t})
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}
