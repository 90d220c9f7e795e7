package accesslayer_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// Every status is in the table, so that a new one must be classified.
func TestTooDeep(t *testing.T) {
	t.Parallel()
	less := map[ci.Status]bool{ci.InsufficientResources: true, ci.InsufficientMemory: true, ci.InvalidMaxWRs: true,
		ci.InvalidCQSize: true, ci.InvalidSRQSize: true}
	for s := ci.InsufficientResources; s <= ci.UnknownError; s++ {
		assert.Equal(t, less[s], accesslayer.TooDeep(s), "%v", s)
		err := &ci.Error{Verb: "PD.CreateQP", Status: s}
		assert.Equal(t, less[s], accesslayer.TooDeep(err), "%v", s)
		assert.Equal(t, less[s],
			accesslayer.TooDeep(fmt.Errorf("connecting: %w", errors.Join(err, errors.New("and more")))), "%v", s)
	}
	assert.True(t, accesslayer.TooDeep(&ci.Error{Status: ci.InvalidSetting, Most: &ci.QPCaps{SendDepth: 4}}),
		"the error holds the sizes that would be granted")
	assert.False(t, accesslayer.TooDeep(nil))
	assert.False(t, accesslayer.TooDeep(errors.New("another")))
}

// A loop as in the comment of TooDeep ends with sizes that the driver grants, and at once for any other error.
func TestTooDeepLoop(t *testing.T) {
	t.Parallel()
	for _, status := range []ci.Status{ci.InsufficientResources, ci.InvalidCAHandle} {
		r := newRig(t)
		r.h.plan("create QP", &ci.Error{Status: status}, &ci.Error{Status: status})
		depth := 64
		qp, err := r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq, QPCaps: ci.QPCaps{SendDepth: depth}}, nil)
		for ; accesslayer.TooDeep(err); qp, err = r.pd.NewQP(ci.QPCreate{SendCQ: r.cq, RecvCQ: r.cq,
			QPCaps: ci.QPCaps{SendDepth: depth}}, nil) {
			depth /= 2
		}
		if status == ci.InvalidCAHandle {
			assert.ErrorIs(t, err, status)
			assert.Equal(t, 64, depth, "not repeated")
			continue
		}
		assert.NoError(t, err)
		assert.NotNil(t, qp)
		assert.Equal(t, 16, depth)
	}
}
