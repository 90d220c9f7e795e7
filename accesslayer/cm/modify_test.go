package cm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
)

// Modify rejects a nil QP and a nil connection.
func TestModifyNil(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterActive(s)
		assert.ErrorIs(t, cm.Modify(nil, v.c, ci.QPInit, 0), ci.InvalidParameter)
		assert.ErrorIs(t, cm.Modify(nil, nil, ci.QPInit, 0), ci.InvalidParameter)
		v.end()
	})
}
