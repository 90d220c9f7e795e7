package validate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// A refusal is a LimitError only if the request exceeds a limit.
func TestLimiter(t *testing.T) {
	t.Parallel()
	l := &limiter{attr: &ci.CAAttr{MaxWRs: 4, MaxSGEs: 2}, made: map[string]int{}}
	full := &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources}
	invalid := &ci.Error{Verb: "PD.CreateQP", Status: ci.InvalidMaxWRs}
	for _, x := range []struct {
		what string
		err  error
		want string
	}{
		{"success", l.create(nil, "MaxPDs", 1), ""},
		{"as many as allowed", l.create(full, "MaxPDs", 2), ""},
		{"one more", l.create(full, "MaxPDs", 1), "MaxPDs is 1, the case needs 2"},
		{"one more, for another reason", l.create(invalid, "MaxPDs", 1), ""},
		{"within the sizes", l.createQP(invalid, ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 4}}), ""},
		{"beyond a size", l.createQP(invalid, ci.QPCreate{QPCaps: ci.QPCaps{RecvDepth: 5}}),
			"MaxWRs is 4, the case needs 5"},
		{"a full queue of its own depth", l.post(full, QueueDepth), ""},
		{"a full queue of less", l.post(full, 4), "MaxWRs or half of MaxCQEs of an adapter is 4, the case needs 16"},
		{"entries", l.post(invalid, 4, entries(2, make([]ci.SGE, 3))), "MaxSGEs of an adapter is 2, the case needs 3"},
	} {
		var beyond *LimitError
		ok := errors.As(x.err, &beyond)
		assert.Equal(t, x.want != "", ok, x.what)
		if ok {
			assert.Equal(t, x.want, beyond.Reason, x.what)
			assert.NotEqual(t, ci.UnknownError, ci.StatusOf(x.err), x.what)
		}
	}
	l.reset()
	assert.Equal(t, error(full), l.create(full, "MaxPDs", 1), "another case begins with none")
}

func TestLacking(t *testing.T) {
	t.Parallel()
	assert.Empty(t, Lacking(&ample, &ample))
	few := ample
	few.MaxQPs = 3
	assert.Equal(t, "MaxQPs is 3, the case needs 16", Lacking(&few, &services))
	few.MaxQPs = 0 // not claimed
	assert.Empty(t, Lacking(&few, &services))
}
