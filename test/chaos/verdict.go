package chaos

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// maxFailures is the number of failures that a run reports.
const maxFailures = 20

// verdict collects failures. All methods may be called concurrently.
type verdict struct {
	mu       sync.Mutex
	failures []string
	onFail   func() // ends the round
}

func (v *verdict) failf(format string, args ...any) {
	v.mu.Lock()
	if len(v.failures) < maxFailures {
		v.failures = append(v.failures, fmt.Sprintf(format, args...))
	}
	f := v.onFail
	v.mu.Unlock()
	if f != nil {
		f()
	}
}

// set replaces the function that runs at each failure.
func (v *verdict) set(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.onFail = f
}

func (v *verdict) failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.failures) > 0
}

func (v *verdict) err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(v.failures, "\n"))
}
