package ci_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// Neither Success nor WCSuccess is an error: returning them must not compile, and Err of both is nil.
func TestSuccessIsNoError(t *testing.T) {
	t.Parallel()
	for _, v := range []any{ci.Success, ci.WCSuccess, ci.WCFlushErr} {
		_, is := v.(error)
		assert.False(t, is, "%T", v)
	}
	assert.NoError(t, ci.Status(ci.Success).Err())
	assert.NoError(t, ci.WCSuccess.Err())
	assert.NoError(t, ci.WC{}.Err())
	assert.Equal(t, ci.Status(ci.Success), ci.StatusOf(nil))
}

func TestErrOfStatus(t *testing.T) {
	t.Parallel()
	err := ci.NotFound.Err()
	assert.ErrorIs(t, err, ci.NotFound)
	assert.ErrorIs(t, &ci.Error{Status: ci.NotFound}, ci.NotFound)
	assert.NotErrorIs(t, err, ci.Timeout)
	wrapped := fmt.Errorf("port 1: %w", &ci.Error{Verb: "CA.Modify", Status: ci.NotFound})
	assert.Equal(t, ci.NotFound, ci.StatusOf(wrapped))
	assert.Equal(t, ci.UnknownError, ci.StatusOf(errors.New("no status")))
}

func TestErrOfCompletion(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("request 7: %w", ci.WC{ID: 7, Status: ci.WCRNRRetryErr}.Err())
	assert.EqualError(t, err, "request 7: completion: RNR retries exhausted")
	assert.ErrorIs(t, err, ci.WCRNRRetryErr.Err())
	assert.NotErrorIs(t, err, ci.WCFlushErr.Err())
	failed, ok := errors.AsType[ci.WCError](err)
	assert.True(t, ok)
	assert.Equal(t, ci.WCRNRRetryErr, failed.Status())
}

func TestErrDoesNotAllocate(t *testing.T) {
	wc := ci.WC{Status: ci.WCFlushErr}
	var err error
	assert.Zero(t, testing.AllocsPerRun(100, func() { err = wc.Err() }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { err = ci.NotFound.Err() }))
	assert.Error(t, err)
}
