package rchca

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/templates/rchca/userabi"
)

// TestPrivate checks which private data the driver accepts, and what it returns.
func TestPrivate(t *testing.T) {
	library := func() *ci.UserBuffer {
		return &ci.UserBuffer{Command: userabi.Command, Status: -1, In: userabi.Request{}.Encode(),
			Out: make([]byte, 0, userabi.AnswerSize)}
	}
	for name, x := range map[string]struct {
		ub   *ci.UserBuffer
		out  []byte
		fail bool
	}{
		"a consumer in the driver's process": {},
		"a process without the library":      {ub: &ci.UserBuffer{Status: -1, Out: []byte{1}}, out: []byte{}},
		"the library":                        {ub: library(), out: userabi.Answer{Number: 9}.Encode()},
		"another library":                    {ub: &ci.UserBuffer{Command: 1}, fail: true},
		"data without a command":             {ub: &ci.UserBuffer{In: []byte{1}}, fail: true},
		"a request that is too short": {ub: &ci.UserBuffer{Command: userabi.Command, In: []byte{1},
			Out: make([]byte, 0, userabi.AnswerSize)}, fail: true},
		"no room for the answer": {ub: &ci.UserBuffer{Command: userabi.Command, In: userabi.Request{}.Encode()},
			fail: true},
	} {
		data, err := openPrivate("verb", x.ub)
		if x.fail {
			assert.ErrorIs(t, err, ci.InvalidParameter, name)
			continue
		}
		require.NoError(t, err, name)
		data.answer(userabi.Answer{Number: 9})
		if x.ub != nil {
			assert.Zero(t, x.ub.Status, name)
			assert.Equal(t, x.out, x.ub.Out, name)
		}
	}
}
