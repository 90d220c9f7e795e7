package usersuite

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"ciddk/validate"
	"ciddk/validate/kit"
)

// trace records what happens, in order: hooks, messages and calls of the driver.
type trace struct {
	mu   sync.Mutex
	list []string
}

func (r *trace) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf(format, args...))
}

// order makes what one side did before visible to the other side, which calls add or order afterwards. The messages
// between the two do so, too, but the race detector does not see them.
func (r *trace) order() {
	r.mu.Lock()
	defer r.mu.Unlock()
}

// take returns what was recorded, and forgets it.
func (r *trace) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// count returns how often something was recorded.
func (r *trace) count(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.list {
		if s == what {
			n++
		}
	}
	return n
}

// want expects that exactly this was recorded, and forgets it.
func (r *trace) want(t *validate.T, where string, want ...string) {
	got := r.take()
	kit.True(t, slices.Equal(got, want), where, strings.Join(want, ", "), "%s", strings.Join(got, ", "))
}
